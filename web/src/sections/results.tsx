// Every metric of every variant under every load.
import type { JSX } from "preact";
import { interval, pretty, probability, ratioParts } from "../format";
import type { Cell, Comparison, Load, Metric, Variant } from "../model";
import { Choice, Mark, Section, Swatch } from "../parts/controls";
import { usePage } from "../parts/context";
import { Table, type Column } from "../parts/table";
import { corrected, marks, metricLabel, type View } from "../view";
import { cellText, Difference, differenceText } from "./summary";

interface Row {
  variant: Variant;
  load: Load;
  metric: Metric;
  cell: Cell | undefined;
  comparison: Comparison | undefined;
  /** Whether the row above is of the same load, and of the same metric too. */
  sameLoad: boolean;
  sameMetric: boolean;
}

export function Results(): JSX.Element {
  const { view, state, set, variants, loads } = usePage();
  const metrics = view.model.metrics.filter((m) => state.rows === "all" || m.primary);
  const rows: Row[] = [];
  for (const load of loads) {
    for (const metric of metrics) {
      for (const variant of variants) {
        const cell = view.cell(variant.name, load.name, metric.name);
        if (cell) rows.push({ variant, load, metric, cell, comparison: view.comparison(variant.name, load.name, metric.name), sameLoad: false, sameMetric: false });
      }
    }
  }
  const words = state.filter.toLowerCase().split(/\s+/).filter((w) => w !== "");
  const found = rows.filter((r) => words.every((w) => `${r.load.name} ${r.variant.name} ${r.metric.name} ${r.metric.label}`.toLowerCase().includes(w)));
  if (!state.sort["results"]) group(found);
  return (
    <Section id="results" title="All numbers" lead="Primary metrics are corrected for their number (Holm); the rest is exploratory. CSV copies hold plain SI units.">
      <Table
        id="results"
        label="all numbers"
        class={`dense ${state.sort["results"] ? "" : "grouped"}`}
        columns={columns(view)}
        rows={found}
        keyOf={(r) => `${r.load.name}/${r.metric.name}/${r.variant.name}`}
        classOf={(r) => `${r.variant.control ? "control" : ""} ${r.sameMetric ? "" : "leader"}`}
        tools={
          <>
            <input type="search" placeholder="filter, e.g. envoy p99" aria-label="filter the table" value={state.filter} onInput={(e) => set({ filter: e.currentTarget.value })} />
            <Choice label="metrics" value={state.rows} onChange={(rows) => set({ rows })} options={[{ value: "primary", label: "primary" }, { value: "all", label: "all metrics" }]} />
          </>
        }
      />
      {found.length === 0 && <p class="empty">No row matches.</p>}
    </Section>
  );
}

/** Marks what would only repeat the row above. */
function group(rows: Row[]): void {
  rows.forEach((r, i) => {
    const above = rows[i - 1];
    r.sameLoad = above?.load === r.load;
    r.sameMetric = r.sameLoad && above?.metric === r.metric;
  });
}

function columns(view: View): Column<Row>[] {
  return [
    { id: "load", head: "load", text: (r) => r.load.name, cell: (r) => (r.sameLoad ? <span class="offscreen">{r.load.name}</span> : r.load.name) },
    { id: "metric", head: "metric", text: (r) => r.metric.name, cell: (r) => <span class={r.sameMetric ? "offscreen" : ""} title={metricLabel(r.metric)}>{r.metric.name}</span>, raw: [{ head: "metric", of: (r) => r.metric.name }, { head: "unit", of: (r) => r.metric.unit }] },
    {
      id: "variant",
      head: "variant",
      text: (r) => r.variant.name,
      cell: (r) => (
        <>
          <Swatch look={view.look(r.variant.name)} /> {r.variant.name}
        </>
      ),
    },
    {
      id: "value",
      head: "value",
      under: "with interval",
      numeric: true,
      text: (r) => valueText(r),
      cell: (r) => (
        <span title={r.cell?.reason ?? r.cell?.estimate?.method}>
          <Mark findings={marks(view, r.variant.name, r.load.name, r.metric.name)} />
          {valueText(r)}
          {r.cell?.pooled && <sup title="pooled over trials: one alone has too few samples">p</sup>}
        </span>
      ),
      sort: (r) => r.cell?.estimate?.value,
      raw: [
        { head: "value", of: (r) => r.cell?.estimate?.value },
        { head: "low", of: (r) => r.cell?.estimate?.lo },
        { head: "high", of: (r) => r.cell?.estimate?.hi },
        { head: "text", of: (r) => r.cell?.text },
        { head: "reason", of: (r) => r.cell?.reason },
      ],
    },
    { id: "trials", head: "trials", numeric: true, text: (r) => String(r.cell?.estimate?.n ?? 0), sort: (r) => r.cell?.estimate?.n },
    {
      id: "difference",
      head: "difference",
      numeric: true,
      text: (r) => differenceText(r.comparison, r.metric),
      cell: (r) => <Difference comparison={r.comparison} metric={r.metric} />,
      sort: (r) => r.comparison?.difference?.value,
      raw: [
        { head: "difference", of: (r) => r.comparison?.difference?.value },
        { head: "difference low", of: (r) => r.comparison?.difference?.lo },
        { head: "difference high", of: (r) => r.comparison?.difference?.hi },
        { head: "verdict", of: (r) => r.comparison?.verdict },
      ],
    },
    {
      id: "ratio",
      head: "ratio",
      numeric: true,
      text: (r) => ratioWithInterval(r),
      sort: (r) => r.comparison?.ratio?.value,
      raw: [
        { head: "ratio", of: (r) => r.comparison?.ratio?.value },
        { head: "ratio low", of: (r) => r.comparison?.ratio?.lo },
        { head: "ratio high", of: (r) => r.comparison?.ratio?.hi },
      ],
    },
    {
      id: "p",
      head: "p",
      title: "two-sided; corrected by Holm for primary metrics",
      numeric: true,
      text: (r) => pText(r.comparison),
      sort: (r) => (r.comparison && corrected(r.comparison) ? r.comparison.p_holm : r.comparison?.p),
      raw: [
        { head: "p", of: (r) => r.comparison?.p },
        { head: "p Holm", of: (r) => (r.comparison && corrected(r.comparison) ? r.comparison.p_holm : undefined) },
      ],
    },
  ];
}

function valueText(r: Row): string {
  if (r.cell?.text) return pretty(r.cell.text);
  if (r.cell?.estimate === undefined) return r.cell?.reason ?? cellText(r.cell, r.metric);
  return interval(r.cell.estimate, r.metric.unit);
}

function ratioWithInterval(r: Row): string {
  if (r.comparison?.ratio === undefined || r.comparison.verdict !== "different") return "";
  const parts = ratioParts(r.comparison.ratio);
  return `${parts.value} ${parts.interval}`;
}

function pText(c: Comparison | undefined): string {
  if (c === undefined || c.verdict === "unknown") return "";
  if (c.exploratory) return `${probability(c.p)} expl.`;
  return probability(corrected(c) ? c.p_holm : c.p);
}
