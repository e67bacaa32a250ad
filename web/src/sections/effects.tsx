// Forest plot: every variant's difference to the baseline with its interval.
import * as Plot from "@observablehq/plot";
import type { JSX } from "preact";
import { differenceParts, number, probability, ratioParts, scaleOf, short, value } from "../format";
import type { Comparison, Load, Metric, Variant } from "../model";
import { plotStyle } from "../parts/axis";
import { Chart, type Drawn, type Hit } from "../parts/chart";
import { Check, Choice, Section, Select } from "../parts/controls";
import { usePage } from "../parts/context";
import type { State } from "../state";
import { corrected, metricLabel, pairs, type Look, type View } from "../view";

export function Effects(): JSX.Element {
  const { view, state, set, loads } = usePage();
  const compared = view.model.metrics.filter((m) => view.model.comparisons.some((c) => c.metric === m.name));
  const metric = compared.find((m) => m.name === state.metric) ?? compared.find((m) => m.primary) ?? compared[0];
  if (metric === undefined) {
    return (
      <Section id="effects" title="Differences">
        <p class="empty">Nothing was compared: a comparison needs a baseline and another variant.</p>
      </Section>
    );
  }
  // Loads of several kinds have no metric in common: unless the reader chose
  // one, each shows what it is run for.
  const chosen = compared.find((m) => m.name === state.metric);
  const mixed = new Set(view.model.loads.map((l) => view.main(l)[0]?.name)).size > 1;
  const tools = (
    <>
      <Select label="metric" value={chosen || !mixed ? metric.name : ""} onChange={(m) => set({ metric: m })}>
        {mixed && <option value="">of each load its own</option>}
        {compared.map((m) => (
          <option key={m.name} value={m.name}>
            {metricLabel(m)}
          </option>
        ))}
      </Select>
      <Choice label="scale" value={state.scale} onChange={(scale) => set({ scale })} options={[{ value: "absolute", label: "absolute" }, { value: "relative", label: "relative" }]} />
      <Check label="blocks" on={state.dots} onChange={(dots) => set({ dots })} />
    </>
  );
  return (
    <Section id="effects" title="Differences" tools={tools} lead={<>Each variant against <b>{view.baseline}</b>: estimate, interval and{state.dots ? " every block (small dots)." : " nothing else."} The grey band is the noise floor: the baseline against itself.</>}>
      {loads.map((l) => (
        <Forest key={l.name} load={l} metric={mixed ? (chosen ?? view.main(l)[0] ?? metric) : metric} />
      ))}
    </Section>
  );
}

function Forest(props: { load: Load; metric: Metric }): JSX.Element {
  const { view, state, variants } = usePage();
  const { load, metric } = props;
  const rows = rowsOf(view, state, variants, load, metric);
  const title = `${metricLabel(metric)}, difference to ${view.baseline}, ${load.name}`;
  if (rows.length === 0) return <p class="empty">{load.name}: no variant to compare is switched on, or none was measured.</p>;
  return (
    <Chart
      title={title}
      caption={
        <>
          <h3>{load.name}</h3> <span>{metricLabel(metric)}: {metric.better === "higher" ? "right is better" : "left is better"}</span>
        </>
      }
      description={rows.map((r) => `${r.variant.name}: ${r.text}`).join("; ")}
      draw={(width) => draw(rows, metric, state.scale, width)}
      on={[view, state.hide.join(), load.name, metric.name, state.scale, state.dots]}
    />
  );
}

interface Row {
  variant: Variant;
  look: Look;
  comparison: Comparison;
  /** In the axis' own unit; undefined where nothing can be told. */
  at: { value: number; lo: number; hi: number } | undefined;
  dots: number[];
  floor: [number, number] | undefined;
  text: string;
}

function rowsOf(view: View, state: State, variants: Variant[], load: Load, metric: Metric): Row[] {
  const relative = state.scale === "relative";
  const base = view.cell(view.baseline, load.name, metric.name)?.estimate?.value ?? 0;
  const rows: Row[] = [];
  for (const variant of variants) {
    const c = view.comparison(variant.name, load.name, metric.name);
    if (c === undefined || variant.name === view.baseline) continue;
    const estimate = relative ? c.ratio : c.difference;
    const dots = state.dots ? pairs(view, variant.name, load.name, metric.name).map((p) => (relative ? p.ratio : p.difference)) : [];
    const floor: [number, number] | undefined = c.floor <= 0 ? undefined : relative ? (base > c.floor ? [1 - c.floor / base, 1 + c.floor / base] : undefined) : [-c.floor, c.floor];
    rows.push({ variant, look: view.look(variant.name), comparison: c, at: estimate, dots: dots.filter(Number.isFinite), floor, text: label(c, metric, relative) });
  }
  return rows;
}

function label(c: Comparison, metric: Metric, relative: boolean): string {
  const estimate = relative ? c.ratio : c.difference;
  if (estimate === undefined) return c.reason ?? "cannot be told";
  const parts = relative ? ratioParts(estimate) : differenceParts(estimate, metric.unit);
  const text = `${parts.value} ${parts.interval}`;
  if (c.verdict === "~") return `~ ${text}`;
  return c.verdict === "equivalent" ? `equivalent ${text}` : text;
}

const rowHeight = 44;

function draw(rows: Row[], metric: Metric, scale: State["scale"], width: number): Drawn {
  const axis = axisOf(rows, metric, scale);
  const wide = width >= 520;
  const names = rows.map((r) => r.variant.name);
  const marginLeft = Math.min(150, 24 + 7 * Math.max(...names.map((n) => n.length)));
  const marginRight = wide ? 190 : 16;
  const floor = rows.find((r) => r.floor)?.floor;
  const options: Plot.PlotOptions = {
    width,
    height: rows.length * rowHeight + 46,
    marginLeft,
    marginRight,
    marginTop: 4,
    marginBottom: 42,
    style: plotStyle,
    x: { ...axis.scale, label: axis.label, labelAnchor: "center", labelArrow: "none" },
    y: { type: "band", domain: names, label: null, axis: null, padding: 0 },
    marks: [
      floor ? Plot.rectX([0], { x1: axis.of(floor[0]), x2: axis.of(floor[1]), fill: "var(--floor)" }) : null,
      Plot.gridX({ ticks: axis.ticks ?? 6, stroke: "var(--grid)", strokeOpacity: 1 }),
      Plot.ruleX([axis.of(scale === "relative" ? 1 : 0)], { stroke: "var(--axis)", strokeWidth: 1.25 }),
      Plot.axisX({ ticks: axis.ticks ?? 6, text: (x: number) => axis.format(x), tickSize: 0, label: axis.label, labelAnchor: "center", labelArrow: "none", color: "var(--muted)" }),
      ...rows.flatMap((r) => marksOf(r, axis, wide)),
    ],
  };
  const svg = Plot.plot(options) as SVGSVGElement;
  const plot = svg as unknown as Plot.Plot;
  const [x, y] = [plot.scale("x"), plot.scale("y")];
  const hits: Hit[] = rows.map((r) => ({
    x: Number(x?.apply(axis.of(r.at?.value ?? (scale === "relative" ? 1 : 0)))),
    y: Number(y?.apply(r.variant.name)) + rowHeight / 2,
    title: r.variant.name,
    rows: details(r.comparison, metric),
  }));
  return { svg, hits, along: "y" };
}

function marksOf(r: Row, axis: Axis, wide: boolean): Plot.Markish[] {
  const y = r.variant.name;
  const none = r.comparison.verdict !== "different";
  const color = r.look.color;
  const text = { y: () => y, fill: none ? "var(--muted)" : "var(--text)", fontWeight: none ? 400 : 600 };
  const labelled = wide
    ? Plot.text([r.text], { ...text, text: (d: string) => d, frameAnchor: "right", textAnchor: "start", dx: 12 })
    : Plot.text([r.text], { ...text, text: (d: string) => d, frameAnchor: "right", textAnchor: "end", dy: -13, stroke: "var(--paper)", strokeWidth: 4 });
  const name = Plot.text([y], { y: () => y, text: (d: string) => d, frameAnchor: "left", textAnchor: "end", dx: -12, fill: "var(--text)" });
  if (r.at === undefined) return [name, labelled];
  const at = { value: axis.of(r.at.value), lo: axis.of(r.at.lo), hi: axis.of(r.at.hi) };
  return [
    Plot.dot(r.dots, { x: (d: number) => axis.of(d), y: () => y, dy: 11, r: 2, fill: color, fillOpacity: 0.55 }),
    Plot.ruleY([at], { y: () => y, x1: "lo", x2: "hi", stroke: color, strokeWidth: 2.5, strokeLinecap: "round" }),
    Plot.dot([at], { x: "value", y: () => y, symbol: r.look.symbol, r: 5, fill: none ? "var(--paper)" : color, stroke: color, strokeWidth: 1.75 }),
    name,
    labelled,
  ];
}

interface Axis {
  of(x: number): number;
  scale: Plot.ScaleOptions;
  label: string;
  ticks?: number[] | undefined;
  format(x: number): string;
}

function axisOf(rows: Row[], metric: Metric, scale: State["scale"]): Axis {
  const all = rows.flatMap((r) => [...(r.at ? [r.at.lo, r.at.hi, r.at.value] : []), ...r.dots, ...(r.floor ?? [])]).filter(Number.isFinite);
  if (scale === "relative") return ratioAxis(all);
  const largest = Math.max(1e-12, ...all.map(Math.abs));
  const s = scaleOf(metric.unit, largest);
  const per: Record<string, string> = { "s/1k requests": " of CPU per 1,000 requests", "s/Gbit": " of CPU per Gbit", "s/1k packets": " of CPU per 1,000 packets" };
  const unit = metric.unit === "share" ? "percentage points" : s.unit + (per[metric.unit] ?? "");
  const [lo, hi] = padded(Math.min(0, ...all) * s.by, Math.max(0, ...all) * s.by);
  return {
    of: (x) => x * s.by,
    scale: { domain: [lo, hi] },
    label: `difference, ${unit}`,
    format: (x) => (x > 0 ? "+" : "") + short(x),
  };
}

function ratioAxis(all: number[]): Axis {
  const positive = all.filter((x) => x > 0);
  const lo = Math.min(1, ...positive);
  const hi = Math.max(1, ...positive);
  if (hi < 2 && lo > 0.5) {
    const [a, b] = padded((lo - 1) * 100, (hi - 1) * 100);
    return { of: (x) => (x - 1) * 100, scale: { domain: [a, b] }, label: "difference, %", format: (x) => (x > 0 ? "+" : "") + short(x) };
  }
  const ticks = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000].filter((t) => t >= lo / 1.3 && t <= hi * 1.3);
  return { of: (x) => Math.max(x, lo / 2), scale: { type: "log", domain: [lo / 1.2, hi * 1.2] }, label: "ratio (log scale)", ticks, format: (x) => `${short(x)}×` };
}

function padded(lo: number, hi: number): [number, number] {
  const room = (hi - lo || 1) * 0.06;
  return [lo - room, hi + room];
}

function details(c: Comparison, metric: Metric): Hit["rows"] {
  const rows: Hit["rows"] = [];
  if (c.difference) {
    const d = differenceParts(c.difference, metric.unit);
    rows.push({ label: "difference", value: `${d.value} ${d.interval}` });
  }
  if (c.ratio) {
    const d = ratioParts(c.ratio);
    rows.push({ label: "ratio", value: `${d.value} ${d.interval}` });
  }
  rows.push({ label: corrected(c) ? "p (Holm)" : c.exploratory ? "p (exploratory)" : "p", value: probability(corrected(c) ? c.p_holm : c.p) });
  if (c.floor > 0) rows.push({ label: "noise floor", value: `±${unsigned(c.floor, metric)}` });
  if (c.detectable > 0) rows.push({ label: "would have been seen", value: unsigned(c.detectable, metric) });
  if (c.difference) rows.push({ label: `${c.difference.n} blocks`, value: c.difference.method });
  if (c.reason) rows.push({ label: "because", value: c.reason });
  return rows;
}

function unsigned(x: number, metric: Metric): string {
  return metric.unit === "share" ? `${number(x * 100)} points` : value(x, metric.unit);
}
