// Reads the model out of the page. Go writes empty lists as null; after read
// every list is a list.
import type { Model } from "./model";

/** The version of the model that this page understands. */
export const schema = 1;

/** The JSON as text: Go writes it plainly, or, where it is large, as base64 of gzip. */
export async function unpack(text: string): Promise<string> {
  const trimmed = text.trim();
  if (trimmed === "" || trimmed.startsWith("{")) return trimmed;
  const bytes = Uint8Array.from(atob(trimmed), (c) => c.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
}

/** Parses the JSON that Go put into the page. Throws an Error that a reader can act on. */
export function parse(text: string): Model {
  let raw: unknown;
  try {
    // Seeds have 64 bits, numbers here only 53: keep a long seed as text. Inside
    // strings quotes are escaped, so this finds only the key.
    raw = JSON.parse(text.replace(/("seed":\s*)(\d{16,})/, '$1"$2"'));
  } catch (e) {
    throw new Error(`the data in this page is not JSON (${String(e)}); write the report again`);
  }
  if (typeof raw !== "object" || raw === null) {
    throw new Error("this page holds no data; write the report again");
  }
  const model = raw as Model;
  if (model.schema !== schema) {
    throw new Error(`this page reads schema ${schema}, the data has schema ${String(model.schema)}; write the report again with one version`);
  }
  return normalise(model);
}

function list<T>(value: T[] | null | undefined): T[] {
  return value ?? [];
}

function normalise(m: Model): Model {
  return {
    ...m,
    answer: list(m.answer),
    variants: list(m.variants).map((v) => ({ ...v, stack: list(v.stack) })),
    loads: list(m.loads).map((l) => ({ ...l, main: list(l.main) })),
    metrics: list(m.metrics),
    cells: list(m.cells).map((c) => ({ ...c, values: list(c.values) })),
    comparisons: list(m.comparisons),
    curves: list(m.curves).map((c) => ({ ...c, points: list(c.points) })),
    timelines: list(m.timelines).map((t) => ({
      ...t,
      bounds_s: list(t.bounds_s),
      cells: list(t.cells),
      succeeded: list(t.succeeded),
      failed: list(t.failed),
      mean_s: list(t.mean_s),
      max_s: list(t.max_s),
    })),
    flows: list(m.flows).map((f) => ({
      ...f,
      length_s: list(f.length_s),
      up_bps: list(f.up_bps),
      down_bps: list(f.down_bps),
      retransmits: list(f.retransmits),
      loss: list(f.loss),
      jitter_s: list(f.jitter_s),
    })),
    failovers: list(m.failovers).map((f) => ({
      ...f,
      answerers: list(f.answerers),
      answered: list(f.answered).map(list),
      failed: list(f.failed),
      median_s: list(f.median_s),
      slowest_s: list(f.slowest_s),
      harms: list(f.harms).map((h) => ({ ...h, struck: list(h.struck) })),
    })),
    resources: list(m.resources),
    ledger: list(m.ledger).map((r) => ({
      ...r,
      cells: list(r.cells).map((c) => ({ ...c, values: list(c.values), sources: list(c.sources) })),
    })),
    topology: {
      nodes: list(m.topology?.nodes).map((n) => ({ ...n, pods: list(n.pods) })),
      paths: list(m.topology?.paths).map((p) => ({ ...p, hops: list(p.hops) })),
      ...(m.topology?.traffic && { traffic: m.topology.traffic.map((t) => ({ ...t, devices: list(t.devices) })) }),
    },
    findings: list(m.findings),
    trials: list(m.trials),
    gates: list(m.gates),
    published: list(m.published).map((p) => ({ ...p, cells: list(p.cells), claims: list(p.claims) })),
    ...(m.fleet ? { fleet: { ...m.fleet, costs: list(m.fleet.costs), assumed: list(m.fleet.assumed) } } : {}),
    provenance: list(m.provenance),
    unavailable: list(m.unavailable),
  };
}
