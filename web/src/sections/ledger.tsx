// What each variant really did, fact by fact.
import type { JSX } from "preact";
import type { LedgerCell, LedgerRow, Variant } from "../model";
import { Check, Section, Swatch } from "../parts/controls";
import { usePage } from "../parts/context";
import { Table, type Column } from "../parts/table";

export function Ledger(): JSX.Element {
  const { view, state, set, variants } = usePage();
  const { ledger } = view.model;
  const rows = ledger.filter((r) => !state.differs || r.differs);
  return (
    <Section id="ledger" title="Ledger" lead="What each variant really did, and how it was seen. Highlighted facts differ from the baseline's; broken claims are red.">
      {ledger.length === 0 ? (
        <p class="empty">Nothing was observed.</p>
      ) : (
        <Table
          id="ledger"
          label="ledger"
          class="ledger"
          columns={[{ id: "fact", head: "fact", text: (r: LedgerRow) => r.key }, ...variants.map((v) => column(v, view.model.variants, <Swatch look={view.look(v.name)} />))]}
          rows={rows}
          keyOf={(r) => r.key}
          classOf={(r) => (r.differs ? "differs" : "")}
          tools={<Check label="only differences" on={state.differs} onChange={(differs) => set({ differs })} />}
        />
      )}
    </Section>
  );
}

function column(v: Variant, all: Variant[], swatch: JSX.Element): Column<LedgerRow> {
  const index = all.indexOf(v);
  const base = all.findIndex((x) => x.baseline);
  return {
    id: v.name,
    head: v.name,
    text: (r) => cellText(r.cells[index]),
    cell: (r) => <Fact cell={r.cells[index]} differs={r.differs && cellText(r.cells[index]) !== cellText(r.cells[base])} swatch={swatch} />,
  };
}

function cellText(c: LedgerCell | undefined): string {
  if (c === undefined) return "";
  const seen = c.values.join(", ");
  return c.broken ? `${seen || "nothing seen"} (claimed: ${c.claimed ?? ""})` : seen;
}

function Fact(props: { cell: LedgerCell | undefined; differs: boolean; swatch: JSX.Element }): JSX.Element {
  const { cell } = props;
  if (cell === undefined || (cell.values.length === 0 && !cell.broken)) return <span class="absent">–</span>;
  return (
    <div class={`fact ${cell.broken ? "broken" : props.differs ? "other" : ""}`}>
      {cell.values.length === 0 ? <div>nothing seen</div> : cell.values.map((v) => <div key={v}>{v}</div>)}
      {cell.broken && <div class="claim">✕ claimed: {cell.claimed}</div>}
      {cell.claimed && !cell.broken && <div class="kept">✓ as claimed</div>}
      {cell.sources.length > 0 && <small>{cell.sources.join(", ")}</small>}
    </div>
  );
}
