// Look-ups over the model and what every part of the page shares: which metric
// stands in which column, and how a variant looks.
import type { Cell, Comparison, Finding, Load, Metric, Model, Trial, Variant } from "./model";
import type { State } from "./state";

/** How a variant looks everywhere: colour, and shape for those who cannot tell colours. */
export interface Look {
  color: string;
  symbol: "circle" | "square" | "triangle" | "diamond" | "star" | "wye" | "times" | "hexagon";
  dash: string;
}

const symbols: Look["symbol"][] = ["square", "triangle", "diamond", "star", "wye", "times", "hexagon", "circle"];
const dashes = ["", "", "", "", "7 2", "7 2", "7 2", "7 2"];

export interface View {
  model: Model;
  /** The metrics of a load's main table; the first is what the answer is about. */
  main(load: Load): Metric[];
  baseline: string;
  look(variant: string): Look;
  metric(name: string): Metric | undefined;
  cell(variant: string, load: string, metric: string): Cell | undefined;
  comparison(variant: string, load: string, metric: string): Comparison | undefined;
  trial(index: number): Trial | undefined;
  /** Findings about this variant under this load, or about the variant or load as a whole. */
  findings(variant: string, load: string): Finding[];
}

/** Builds the look-ups once for a model. */
export function viewOf(model: Model): View {
  const cells = new Map(model.cells.map((c) => [key(c.variant, c.load, c.metric), c]));
  const comparisons = new Map(model.comparisons.map((c) => [key(c.variant, c.load, c.metric), c]));
  const metrics = new Map(model.metrics.map((m) => [m.name, m]));
  const trials = new Map(model.trials.map((t) => [t.index, t]));
  const looks = looksOf(model.variants);
  return {
    model,
    main: (load) => load.main.flatMap((name) => metrics.get(name) ?? []),
    baseline: model.run.baseline,
    look: (variant) => looks.get(variant) ?? { color: "var(--v0)", symbol: "circle", dash: "" },
    metric: (name) => metrics.get(name),
    cell: (v, l, m) => cells.get(key(v, l, m)),
    comparison: (v, l, m) => comparisons.get(key(v, l, m)),
    trial: (index) => trials.get(index),
    findings: (v, l) => model.findings.filter((f) => concerns(f, v, l, trials)),
  };
}

function key(...parts: string[]): string {
  return parts.join("\u0000");
}

/** Whether a finding is about a variant under a load; findings about the whole run are not. */
export function concerns(f: Finding, variant: string, load: string, trials: Map<number, Trial>): boolean {
  if (f.variant || f.load) return (f.variant ?? variant) === variant && (f.load ?? load) === load;
  return (f.trials ?? []).some((i) => {
    const t = trials.get(i);
    return t?.variant === variant && t.load === load;
  });
}

/** Whether a finding is about the whole run. */
export function wholeRun(f: Finding): boolean {
  return !f.variant && !f.load && (f.trials ?? []).length === 0;
}

function looksOf(variants: Variant[]): Map<string, Look> {
  const looks = new Map<string, Look>();
  let i = 0;
  for (const v of variants) {
    if (v.baseline) looks.set(v.name, { color: "var(--v0)", symbol: "circle", dash: "" });
    else if (v.control) looks.set(v.name, { color: "var(--vc)", symbol: "circle", dash: "2 3" });
    else {
      const n = i++ % 8;
      looks.set(v.name, { color: `var(--v${n + 1})`, symbol: symbols[n] ?? "circle", dash: dashes[n] ?? "" });
    }
  }
  return looks;
}

/** A metric's label as it stands beside numbers of this page. */
export function metricLabel(m: Metric): string {
  const per: Record<string, string> = { "s/1k requests": ", per 1,000 requests", "s/Gbit": ", per Gbit", "s/1k packets": ", per 1,000 packets" };
  return m.label + (per[m.unit] ?? "");
}

/** Variants and loads that are switched on. */
export function shown(view: View, state: State): { variants: Variant[]; loads: Load[] } {
  return {
    variants: view.model.variants.filter((v) => !state.hide.includes(v.name)),
    loads: view.model.loads.filter((l) => !state.hideLoads.includes(l.name)),
  };
}

/** One block's effect: variant against baseline. */
export interface Pair {
  block: number;
  difference: number;
  ratio: number;
}

/** The effect in every block in which both have a valid trial. */
export function pairs(view: View, variant: string, load: string, metric: string): Pair[] {
  const base = new Map<number, number>();
  for (const v of view.cell(view.baseline, load, metric)?.values ?? []) if (!v.invalid) base.set(v.block, v.value);
  const out: Pair[] = [];
  for (const v of view.cell(variant, load, metric)?.values ?? []) {
    const b = base.get(v.block);
    if (v.invalid || b === undefined) continue;
    out.push({ block: v.block, difference: v.value - b, ratio: b > 0 ? v.value / b : Number.NaN });
  }
  return out;
}

/** Whether a comparison belongs to the family that Holm corrects; the control does not. */
export function corrected(c: Comparison): boolean {
  return !c.exploratory && c.p_holm > 0;
}

/** The most severe of some findings; undefined for none. */
export function worst(findings: Finding[]): string | undefined {
  return ["invalid", "suspect", "note"].find((s) => findings.some((f) => f.severity === s));
}

/**
 * The findings that stand as marks beside one number: those that name it or its
 * group, and of those that name none all that are more than notes.
 */
export function marks(view: View, variant: string, load: string, metric: string): Finding[] {
  return view.findings(variant, load).filter((f) => {
    // Trials that are in no estimate do not make it doubtful.
    const left = (f.trials ?? []).map((i) => view.trial(i)?.state);
    if (left.length > 0 && left.every((s) => s !== undefined && s !== "done")) return false;
    const named = f.metrics ?? [];
    if (named.length > 0) return named.some((m) => metric === m || metric.startsWith(`${m}.`));
    return f.severity !== "note";
  });
}
