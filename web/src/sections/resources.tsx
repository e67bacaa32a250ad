// CPU and memory by component, stacked.
import * as Plot from "@observablehq/plot";
import type { JSX } from "preact";
import { interval, scaleOf, short, value } from "../format";
import type { Estimate, Load, Resource } from "../model";
import { plotStyle } from "../parts/axis";
import { Chart, type Drawn, type Hit } from "../parts/chart";
import { Choice, Chip, Section } from "../parts/controls";
import { usePage } from "../parts/context";
import { toggled, type State } from "../state";

const kinds = {
  cpu: { label: "CPU per 1,000 requests", unit: "s/1k requests", of: (r: Resource): Estimate | undefined => r.cpu_s_per_1k },
  gbit: { label: "CPU per Gbit", unit: "s/Gbit", of: (r: Resource): Estimate | undefined => r.cpu_s_per_gbit },
  cores: { label: "CPU in cores", unit: "cores", of: (r: Resource): Estimate | undefined => r.cores },
  memory: { label: "peak memory", unit: "bytes", of: (r: Resource): Estimate | undefined => r.memory_bytes },
} as const;

type Kind = (typeof kinds)[keyof typeof kinds];

const choices: { value: State["resource"]; label: string }[] = [
  { value: "cpu", label: "CPU per work done" },
  { value: "cores", label: "CPU in cores" },
  { value: "memory", label: "peak memory" },
];

/** Requests have CPU per 1,000 of them, other loads per Gbit. */
function kindOf(resource: State["resource"], load: Load): Kind {
  return resource === "cpu" && load.kind !== "requests" ? kinds.gbit : kinds[resource];
}

export function Resources(): JSX.Element {
  const { view, state, set, loads } = usePage();
  const { resources, unavailable } = view.model;
  const missing = (unavailable ?? []).length > 0 && (
    <div class="unavailable">
      <b>Not available here:</b>
      <ul>
        {unavailable?.map((u) => (
          <li key={u}>{u}</li>
        ))}
      </ul>
    </div>
  );
  if (resources.length === 0) {
    return (
      <Section id="resources" title="Resources">
        {missing || <p class="empty">Not measured.</p>}
      </Section>
    );
  }
  const components = order(resources);
  const tools = <Choice label="resource" value={state.resource} onChange={(resource) => set({ resource })} options={choices.map((k) => ({ value: k.value, label: k.label, disabled: !view.model.loads.some((l) => resources.some((r) => r.load === l.name && kindOf(k.value, l).of(r))) }))} />;
  return (
    <Section id="resources" title="Resources" tools={tools} lead="By component, from the measured window only: medians over blocks. The figure beside a bar leaves out the generator, which is no part of the system under test.">
      {missing}
      <div class="legend" role="group" aria-label="components">
        {components.map((c, i) => (
          <Chip key={c} on={!state.hideParts.includes(c)} onToggle={() => set({ hideParts: toggled(state.hideParts, c) })}>
            <span class="square" style={{ background: color(c, i) }} /> {c}
          </Chip>
        ))}
      </div>
      <div class="pair">
        {loads.map((l) => (
          <Bars key={l.name} load={l} kind={kindOf(state.resource, l)} components={components} />
        ))}
      </div>
    </Section>
  );
}

/** Components as a request meets them, the generator last. */
function order(resources: Resource[]): string[] {
  const rank = (c: string): number => {
    const at = [/^server app/, /app/, /^server (sidecar|proxy)/, /^client (sidecar|proxy)/, /sidecar|proxy/, /gateway/, /node|agent/, /kernel/].findIndex((r) => r.test(c));
    if (c.includes("generator")) return 99;
    return at < 0 ? 50 : at;
  };
  return [...new Set(resources.map((r) => r.component))].sort((a, b) => rank(a) - rank(b) || a.localeCompare(b));
}

function color(component: string, i: number): string {
  return component.includes("generator") ? "var(--part-generator)" : `var(--part${i % 6})`;
}

interface Part {
  variant: string;
  component: string;
  fill: string;
  from: number;
  to: number;
}

function Bars(props: { load: Load; kind: Kind; components: string[] }): JSX.Element {
  const { view, state, variants } = usePage();
  const { load, kind, components } = props;
  const mine = view.model.resources.filter((r) => r.load === load.name && !state.hideParts.includes(r.component));
  const parts: Part[] = [];
  for (const v of variants) {
    let from = 0;
    components.forEach((component, i) => {
      const e = kind.of(mine.find((r) => r.variant === v.name && r.component === component) ?? ({} as Resource));
      if (e === undefined) return;
      parts.push({ variant: v.name, component, fill: color(component, i), from, to: from + e.value });
      from += e.value;
    });
  }
  const caption = (
    <>
      <h3>{load.name}</h3> <span>{kind.label}</span>
    </>
  );
  const names = variants.map((v) => v.name).filter((n) => parts.some((p) => p.variant === n));
  if (names.length === 0) {
    return (
      <figure class="chart">
        <figcaption>
          <div class="caption">{caption}</div>
        </figcaption>
        <p class="empty">Not available here.</p>
      </figure>
    );
  }
  const shown = { names, parts, rows: mine, kind };
  return <Chart title={`${kind.label}, ${load.name}`} caption={caption} description={names.map((n) => `${n}: ${value(tested(parts, n), kind.unit)}`).join("; ")} draw={(width) => draw(shown, width)} on={[view, state.hide.join(), state.hideParts.join(), load.name, kind]} legend={components.map((c, i) => ({ label: c, color: color(c, i) })).filter((c) => !state.hideParts.includes(c.label))} />;
}

function total(parts: Part[], variant: string): number {
  return Math.max(0, ...parts.filter((p) => p.variant === variant).map((p) => p.to));
}

/** What the system under test used: all but the generator. */
function tested(parts: Part[], variant: string): number {
  return parts.filter((p) => p.variant === variant && !p.component.includes("generator")).reduce((sum, p) => sum + p.to - p.from, 0);
}

function draw(shown: { names: string[]; parts: Part[]; rows: Resource[]; kind: Kind }, width: number): Drawn {
  const { names, parts, rows, kind } = shown;
  const largest = Math.max(...parts.map((p) => p.to), 1e-12);
  const s = scaleOf(kind.unit, largest);
  const rowHeight = 34;
  const marginLeft = Math.min(150, 24 + 7 * Math.max(...names.map((n) => n.length)));
  const ends = names.map((n) => ({ n, at: total(parts, n) * s.by, text: value(tested(parts, n), kind.unit), throttled: throttled(rows, n) }));
  const svg = Plot.plot({
    width,
    height: names.length * rowHeight + 44,
    marginLeft,
    marginRight: ends.some((e) => e.throttled > 0) ? 170 : 80,
    marginTop: 4,
    marginBottom: 40,
    style: plotStyle,
    x: { domain: [0, largest * s.by] },
    y: { type: "band", domain: names, axis: null, padding: 0.32 },
    marks: [
      Plot.gridX({ ticks: 5, stroke: "var(--grid)", strokeOpacity: 1 }),
      Plot.axisX({ ticks: 5, tickSize: 0, tickFormat: (v: number) => short(v), label: `${kind.label}, ${s.unit}`, labelAnchor: "center", labelArrow: "none", color: "var(--muted)" }),
      Plot.barX(parts, { x1: (p: Part) => p.from * s.by, x2: (p: Part) => p.to * s.by, y: "variant", fill: "fill", insetRight: 0.75 }),
      Plot.ruleX([0], { stroke: "var(--axis)" }),
      Plot.text(names, { y: (n: string) => n, text: (n: string) => n, frameAnchor: "left", textAnchor: "end", dx: -12, fill: "var(--text)" }),
      Plot.text(ends, { x: "at", y: "n", text: (e) => e.text, textAnchor: "start", dx: 8, fill: "var(--text)", fontWeight: 600 }),
      Plot.text(ends.filter((e) => e.throttled > 0), { x: "at", y: "n", text: (e) => `throttled ${value(e.throttled, "s")}`, textAnchor: "start", dx: 68, fill: "var(--bad)" }),
    ],
    color: { type: "identity" },
  }) as SVGSVGElement;
  const plot = svg as unknown as Plot.Plot;
  const half = Number(plot.scale("y")?.bandwidth ?? 0) / 2;
  const hits: Hit[] = ends.map((e) => ({
    x: Number(plot.scale("x")?.apply(e.at / 2)),
    y: Number(plot.scale("y")?.apply(e.n)) + half,
    title: e.n,
    rows: partRows(rows, parts, e.n, kind),
  }));
  return { svg, hits, along: "y" };
}

function throttled(rows: Resource[], variant: string): number {
  return rows.filter((r) => r.variant === variant).reduce((sum, r) => sum + (r.throttled_s?.value ?? 0), 0);
}

function partRows(rows: Resource[], parts: Part[], variant: string, kind: Kind): Hit["rows"] {
  return parts
    .filter((p) => p.variant === variant)
    .map((p) => {
      const r = rows.find((x) => x.variant === variant && x.component === p.component);
      const e = r && kind.of(r);
      const slow = r?.throttled_s && r.throttled_s.value > 0 ? `, throttled ${value(r.throttled_s.value, "s")}` : "";
      return { label: p.component, color: p.fill, value: e ? interval(e, kind.unit) + slow : "–" };
    });
}
