// What the variants would cost a fleet: measured cost, scaled.
import type { JSX } from "preact";
import { count, differenceParts, interval, nbsp } from "../format";
import type { Cost, Estimate } from "../model";
import { Section } from "../parts/controls";
import { usePage } from "../parts/context";
import { Table, type Column } from "../parts/table";
import { shown } from "../view";

export function CostSection(): JSX.Element | null {
  const { view, state } = usePage();
  const { fleet } = view.model;
  if (fleet === undefined) return null;
  const { variants, loads } = shown(view, state);
  const rows = fleet.costs.filter((c) => variants.some((v) => v.name === c.variant) && loads.some((l) => l.name === c.load));
  const columns: Column<Cost>[] = [
    { id: "variant", head: "variant", text: (c) => c.variant, sort: (c) => c.variant },
    { id: "load", head: "load", text: (c) => c.load, sort: (c) => c.load },
    { id: "cores", head: "cores", text: (c) => text(c.cores, ""), sort: (c) => c.cores?.value },
    { id: "extra", head: `more than ${view.baseline}`, text: (c) => extra(c.extra_cores), sort: (c) => c.extra_cores?.value },
    { id: "memory", head: "memory of sidecars", text: (c) => text(c.memory, "bytes"), sort: (c) => c.memory?.value },
  ];
  return (
    <Section id="cost" title="What it costs you" lead={`Extrapolated to ${count(fleet.pods)} pods that get ${count(fleet.rate)} requests/s, with the intervals of the measurement.`}>
      {rows.length > 0 && <Table id="cost" label="what it costs" columns={columns} rows={rows} keyOf={(c) => `${c.variant}/${c.load}`} />}
      <ul>
        {fleet.assumed.map((a) => (
          <li key={a}>{a}</li>
        ))}
      </ul>
    </Section>
  );
}

function text(e: Estimate | undefined, unit: string): string {
  return e === undefined ? "–" : interval(e, unit);
}

function extra(e: Estimate | undefined): string {
  if (e === undefined) return "–";
  const p = differenceParts(e, "");
  return `${p.value.trim().replace(nbsp, "")} ${p.interval}`;
}
