// Where the time of traced requests went: a waterfall a variant, on one scale.
import * as Plot from "@observablehq/plot";
import type { JSX } from "preact";
import { count, scaleOf, short, value } from "../format";
import type { Breakdown, BreakdownPart, Load } from "../model";
import { plotStyle } from "../parts/axis";
import { Chart, type Drawn, type Hit } from "../parts/chart";
import { Section } from "../parts/controls";
import { usePage } from "../parts/context";
import { shown } from "../view";

const kinds: Record<string, { label: string; color: string }> = {
  proxy: { label: "proxy", color: "var(--part1)" },
  network: { label: "network", color: "var(--part4)" },
  app: { label: "app", color: "var(--part0)" },
  unexplained: { label: "unexplained: no stamp says what", color: "var(--part-generator)" },
  parallel: { label: "at the same time as other parts", color: "none" },
};

export function Breakdowns(): JSX.Element | null {
  const { view, state } = usePage();
  const { variants, loads } = shown(view, state);
  const all = view.model.breakdowns ?? [];
  if (all.length === 0) return null;
  const mine = all.filter((b) => variants.some((v) => v.name === b.variant));
  const used = Object.entries(kinds).filter(([kind]) => mine.some((b) => b.parts.some((p) => p.kind === kind)));
  return (
    <Section id="breakdown" title="Where time goes" lead="Requests traced in trials of their own, outside the results. Bars are means of the requests about the median (from the 45th to the 55th percentile), so they add up; each holds the way there and back. Network is from one program's stamp to another's: the kernels at both ends, waking up and waiting for a CPU are in it.">
      <div class="legend">
        {used.map(([kind, k]) => (
          <span key={kind} class="key">
            <span class="square" style={{ background: k.color }} /> {k.label}
          </span>
        ))}
      </div>
      {loads.map((l) => (
        <Waterfalls key={l.name} load={l} all={mine.filter((b) => b.load === l.name)} />
      ))}
    </Section>
  );
}

function Waterfalls(props: { load: Load; all: Breakdown[] }): JSX.Element | null {
  const { view, state } = usePage();
  const { load, all } = props;
  const drawn = all.filter((b) => b.parts.length > 0);
  if (all.length === 0) return null;
  return (
    <>
      {drawn.length > 0 && (
        <Chart
          title={`where time goes, ${load.name}`}
          caption={
            <>
              <h3>{load.name}</h3> <span>{load.text}</span>
            </>
          }
          description={drawn.map((b) => `${b.variant}: ${b.parts.map((p) => `${p.name} ${value(p.at_median_s, "s")}`).join(", ")}`).join("; ")}
          draw={(width) => draw(drawn, width)}
          on={[view, state.hide.join(), load.name]}
          legend={Object.values(kinds)}
        />
      )}
      <ul>
        {all.flatMap((b) => (b.reason === undefined ? (b.notes ?? []) : [`Not broken down: ${b.reason}`]).map((n) => <li key={b.variant + n}>{`${b.variant}: ${n}`}</li>))}
      </ul>
    </>
  );
}

/** A row of the picture: a variant's name with its total, or one of its parts. */
interface Row {
  key: string;
  variant: string;
  part?: BreakdownPart;
  text: string;
  total: number;
}

function rowsOf(all: Breakdown[]): Row[] {
  return all.flatMap((b) => [
    { key: b.variant, variant: b.variant, text: b.variant, total: b.at_median_s },
    ...b.parts.map((part, i) => ({ key: `${b.variant}/${i}`, variant: b.variant, part, text: part.name, total: part.at_median_s })),
  ]);
}

function draw(all: Breakdown[], width: number): Drawn {
  const rows = rowsOf(all);
  const parts = rows.flatMap((r) => (r.part === undefined ? [] : [{ key: r.key, from: Math.min(r.part.start_s, r.part.start_s + r.part.at_median_s), to: Math.max(r.part.start_s, r.part.start_s + r.part.at_median_s), fill: kinds[r.part.kind]?.color ?? "none" }]));
  const most = Math.max(1e-12, ...parts.map((p) => p.to));
  const s = scaleOf("s", most);
  const rowHeight = 24;
  const marginLeft = Math.min(width * 0.45, 30 + 6.6 * Math.max(...rows.map((r) => r.text.length)));
  const svg = Plot.plot({
    width,
    height: rows.length * rowHeight + 44,
    marginLeft,
    marginRight: 84,
    marginTop: 4,
    marginBottom: 40,
    style: plotStyle,
    x: { domain: [0, most * s.by] },
    y: { type: "band", domain: rows.map((r) => r.key), axis: null, padding: 0.25 },
    marks: [
      Plot.gridX({ ticks: 5, stroke: "var(--grid)", strokeOpacity: 1 }),
      Plot.axisX({ ticks: 5, tickSize: 0, tickFormat: (v: number) => short(v), label: `of the service time, ${s.unit}`, labelAnchor: "center", labelArrow: "none", color: "var(--muted)" }),
      Plot.barX(parts, { x1: (p: (typeof parts)[number]) => p.from * s.by, x2: (p: (typeof parts)[number]) => p.to * s.by, y: "key", fill: "fill", stroke: "var(--axis)", strokeWidth: 0.5 }),
      Plot.ruleX([0], { stroke: "var(--axis)" }),
      Plot.text(rows, { y: "key", text: "text", frameAnchor: "left", textAnchor: "end", dx: -12, fill: (r: Row) => (r.part ? "var(--text)" : "var(--accent)"), fontWeight: 600, filter: (r: Row) => r.part === undefined }),
      Plot.text(rows, { y: "key", text: "text", frameAnchor: "left", textAnchor: "end", dx: -12, fill: "var(--text)", filter: (r: Row) => r.part !== undefined }),
      Plot.text(rows, { y: "key", text: (r: Row) => value(r.total, "s"), frameAnchor: "right", textAnchor: "start", dx: 8, fill: "var(--text)", fontWeight: 600 }),
    ],
    color: { type: "identity" },
  }) as SVGSVGElement;
  const plot = svg as unknown as Plot.Plot;
  const half = Number(plot.scale("y")?.bandwidth ?? 0) / 2;
  const hits: Hit[] = rows.map((r) => ({
    x: Number(plot.scale("x")?.apply(((r.part?.start_s ?? 0) + r.total / 2) * s.by)),
    y: Number(plot.scale("y")?.apply(r.key)) + half,
    title: r.part === undefined ? r.variant : `${r.variant}: ${r.text}`,
    rows: tip(r, all),
  }));
  return { svg, hits, along: "y" };
}

/** What the cursor says of a row: quantiles of parts do not add up, and are no bars. */
function tip(r: Row, all: Breakdown[]): Hit["rows"] {
  const of = r.part ?? all.find((b) => b.variant === r.variant);
  const or = (v: number | undefined): string => (v === undefined ? "–" : value(v, "s"));
  return [
    { label: "about the median", value: value(r.total, "s") },
    { label: r.part ? "its own p50" : "p50", value: or(of?.p50_s) },
    { label: r.part ? "its own p99" : "p99", value: or(of?.p99_s) },
    { label: "requests", value: count(of?.n ?? 0) },
  ];
}
