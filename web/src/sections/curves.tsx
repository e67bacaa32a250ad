// Percentile curves: one line a variant, a band over the blocks.
import * as Plot from "@observablehq/plot";
import type { JSX } from "preact";
import { count, interval, percentile, shortTime, time } from "../format";
import type { Curve, CurvePoint, Load } from "../model";
import { logTicks, plotStyle, quantileTicks, spread } from "../parts/axis";
import { Chart, type Drawn, type Hit } from "../parts/chart";
import { Choice, Chip, Section, Swatch } from "../parts/controls";
import { usePage } from "../parts/context";
import { toggled, type State } from "../state";
import type { Look } from "../view";

const kinds: { value: State["kind"]; label: string; lead: string }[] = [
  { value: "response", label: "response", lead: "Response time counts from when a request was due: it sees queueing." },
  { value: "service", label: "service", lead: "Service time counts from when a request was sent: it does not see queueing in the generator." },
  { value: "failed", label: "failed", lead: "Requests that failed, by the time until they did. They are in no other curve." },
];

export function Curves(): JSX.Element {
  const { view, state, set, loads: all } = usePage();
  const loads = all.filter((l) => l.kind === "requests");
  const has = (kind: string): boolean => view.model.curves.some((c) => c.kind === kind && c.points.length > 0);
  if (loads.length === 0 && all.length > 0) {
    return (
      <Section id="curves" title="Percentiles">
        <p class="empty">These loads are not made of requests: they have no latencies.</p>
      </Section>
    );
  }
  const tools = (
    <>
      <Choice label="which times" value={state.kind} onChange={(kind) => set({ kind })} options={kinds.map((k) => ({ value: k.value, label: k.label, disabled: !has(k.value) }))} />
      <Choice label="latency axis" value={state.y} onChange={(y) => set({ y })} options={[{ value: "log", label: "log" }, { value: "linear", label: "linear" }]} />
    </>
  );
  return (
    <Section id="curves" title="Percentiles" tools={tools} lead={`${kinds.find((k) => k.value === state.kind)?.lead ?? ""} Lines pool all blocks; bands span the blocks.`}>
      <div class="pair">
        {loads.map((l) => (
          <LoadCurves key={l.name} load={l} />
        ))}
      </div>
    </Section>
  );
}

interface Line {
  curve: Curve;
  name: string;
  look: Look;
}

function LoadCurves(props: { load: Load }): JSX.Element {
  const { view, state, set } = usePage();
  const { load } = props;
  // A closed loop has service times only: they are its response times.
  const kind = state.kind === "response" && load.response_is_service && !view.model.curves.some((c) => c.load === load.name && c.kind === "response") ? "service" : state.kind;
  const all: Line[] = [];
  for (const v of view.model.variants) {
    const curve = view.model.curves.find((c) => c.load === load.name && c.kind === kind && c.variant === v.name);
    if (curve && curve.points.length > 0) all.push({ curve, name: v.name, look: view.look(v.name) });
  }
  const lines = all.filter((l) => !state.hide.includes(l.name));
  const caption = (
    <>
      <h3>{load.name}</h3> <span>{kind === "failed" ? "failed requests" : `${kind} time`}{state.kind === "response" && load.response_is_service ? " (closed loop: equals service time)" : ""}</span>
    </>
  );
  const legend = (
    <div class="legend" role="group" aria-label={`variants of ${load.name}`}>
      {all.map((l) => (
        <Chip key={l.name} on={!state.hide.includes(l.name)} title={`${count(l.curve.n)} requests`} onToggle={() => set({ hide: toggled(state.hide, l.name) })}>
          <Swatch look={l.look} /> {l.name}
        </Chip>
      ))}
    </div>
  );
  if (lines.length === 0) {
    return (
      <figure class="chart">
        <figcaption>
          <div class="caption">{caption}</div>
        </figcaption>
        <p class="empty">{all.length === 0 ? (kind === "failed" ? "No request failed." : "Not measured.") : "All variants are switched off."}</p>
        {all.length > 0 && legend}
      </figure>
    );
  }
  return (
    <Chart
      title={`${kind} time percentiles, ${load.name}`}
      caption={caption}
      description={lines.map((l) => `${l.name}: ${["0.5", "0.99"].map((q) => describe(l, Number(q))).join(", ")}`).join("; ")}
      draw={(width) => draw(lines, state.y, width)}
      on={[view, state.hide.join(), load.name, kind, state.y]}
      foot={legend}
    />
  );
}

function describe(l: Line, q: number): string {
  const point = nearestPoint(l.curve.points, q);
  return point ? `p${percentile(point.q)} ${time(point.value)}` : "";
}

function nearestPoint(points: CurvePoint[], q: number): CurvePoint | undefined {
  let best: CurvePoint | undefined;
  for (const p of points) if (best === undefined || Math.abs(odds(p.q) - odds(q)) < Math.abs(odds(best.q) - odds(q))) best = p;
  return best;
}

/** Where a quantile stands on the axis: log10 of 1/(1-q). */
function odds(q: number): number {
  return -Math.log10(1 - q);
}

function draw(lines: Line[], y: State["y"], width: number): Drawn {
  const points = lines.flatMap((l) => l.curve.points);
  const largest = Math.max(...points.map((p) => p.q));
  const smallest = Math.min(...points.map((p) => p.q));
  const values = points.flatMap((p) => [p.value, p.lo, p.hi]).filter((v) => v > 0);
  const [lo, hi] = [Math.min(...values), Math.max(...values)];
  const marginRight = 14 + 6.6 * Math.max(...lines.map((l) => l.name.length));
  const height = 320;
  const ticks = quantileTicks(largest).filter((q) => q >= smallest - 1e-9);
  const log = y === "log";
  const svg = Plot.plot({
    width,
    height,
    marginLeft: 58,
    marginRight,
    marginTop: 10,
    marginBottom: 40,
    style: plotStyle,
    x: { domain: [odds(smallest), odds(largest)] },
    y: { type: y, domain: log ? [lo / 1.1, hi * 1.1] : [0, hi * 1.04], clamp: true },
    marks: [
      Plot.gridX(ticks.map(odds), { stroke: "var(--grid)", strokeOpacity: 1 }),
      Plot.gridY(log ? logTicks(lo / 1.1, hi * 1.1) : undefined, { stroke: "var(--grid)", strokeOpacity: 1, ...(log ? {} : { ticks: 6 }) }),
      Plot.axisX(ticks.map(odds), { tickFormat: (x: number) => percentile(1 - 10 ** -x), tickSize: 0, label: "percentile", labelAnchor: "center", labelArrow: "none", color: "var(--muted)" }),
      // As text: a log axis' tickFormat would drop some.
      Plot.axisY(log ? logTicks(lo / 1.1, hi * 1.1) : undefined, { text: (v: number) => shortTime(v), tickSize: 0, label: null, color: "var(--muted)", ...(log ? {} : { ticks: 6 }) }),
      ...lines.map((l) => Plot.areaY(l.curve.points, { x: (p: CurvePoint) => odds(p.q), y1: (p: CurvePoint) => floorOf(p.lo, log, lo), y2: "hi", fill: l.look.color, fillOpacity: 0.13 })),
      ...lines.map((l) => Plot.lineY(l.curve.points, { x: (p: CurvePoint) => odds(p.q), y: "value", stroke: l.look.color, strokeWidth: 1.9, strokeDasharray: l.look.dash || "none" })),
    ],
  }) as SVGSVGElement;
  const plot = svg as unknown as Plot.Plot;
  const px = (q: number): number => Number(plot.scale("x")?.apply(odds(q)));
  const py = (v: number): number => Number(plot.scale("y")?.apply(v));
  label(svg, lines, px, py, height - 44);
  return { svg, hits: hitsOf(lines, px), along: "x" };
}

function floorOf(lo: number, log: boolean, least: number): number {
  return log ? Math.max(lo, least / 1.1) : lo;
}

/** Names at the ends of the lines, moved apart where they would overlap. */
function label(svg: SVGSVGElement, lines: Line[], px: (q: number) => number, py: (v: number) => number, bottom: number): void {
  const ends = lines.map((l) => l.curve.points[l.curve.points.length - 1]).map((p) => (p ? { x: px(p.q), y: py(p.value) } : { x: 0, y: 0 }));
  const right = Math.max(...ends.map((e) => e.x));
  const ys = spread(ends.map((e) => e.y), 14, 10, bottom);
  lines.forEach((l, i) => {
    const text = document.createElementNS("http://www.w3.org/2000/svg", "text");
    text.setAttribute("x", String(right + 8));
    text.setAttribute("y", String(ys[i] ?? 0));
    text.setAttribute("dy", "0.32em");
    text.setAttribute("text-anchor", "start");
    text.setAttribute("fill", l.look.color);
    text.setAttribute("font-weight", "600");
    text.textContent = l.name;
    svg.append(text);
  });
}

/** One stop of the cursor for every quantile that any line has. */
function hitsOf(lines: Line[], px: (q: number) => number): Hit[] {
  const quantiles = [...new Set(lines.flatMap((l) => l.curve.points.map((p) => p.q)))].sort((a, b) => a - b);
  return quantiles.map((q) => ({
    x: px(q),
    y: 24,
    title: `p${percentile(q)}`,
    rows: lines.flatMap((l) => {
      const p = l.curve.points.find((c) => c.q === q);
      return p ? [{ label: l.name, color: l.look.color, value: interval({ value: p.value, lo: p.lo, hi: p.hi, n: 0, method: "" }, "s") }] : [];
    }),
  }));
}
