// What other sources say, beside ours: their figures and their claims.
import type { JSX } from "preact";
import { interval, pretty, ratioParts } from "../format";
import type { Published, PublishedCell, PublishedClaim } from "../model";
import { Section, Swatch } from "../parts/controls";
import { usePage } from "../parts/context";
import { Table, type Column } from "../parts/table";
import type { View } from "../view";

export function PublishedSection(): JSX.Element | null {
  const { view } = usePage();
  const sources = view.model.published ?? [];
  if (sources.length === 0) return null;
  return (
    <Section id="published" title="Published" lead="What other sources say, beside what this run shows. Covered: the published figure lies in our interval. Where it does not, the order of the variants is compared.">
      {sources.map((p, i) => (
        <Source key={p.source} published={p} id={`published-${i}`} />
      ))}
    </Section>
  );
}

function Source(props: { published: Published; id: string }): JSX.Element {
  const { view, variants, loads } = usePage();
  const { published: p } = props;
  const shown = new Set(variants.map((v) => v.name));
  const under = new Set(loads.map((l) => l.name));
  const cells = p.cells.filter((c) => shown.has(c.variant) && under.has(c.load));
  const claims = p.claims.filter((c) => shown.has(c.left) && shown.has(c.right) && under.has(c.load));
  return (
    <div class="source">
      <h3>{safeLink(p.url) ? <a href={p.url} rel="noreferrer">{p.source}</a> : p.source}</h3>
      {cells.length > 0 && (
        <Table
          id={`${props.id}-cells`}
          label={`figures of ${p.source}`}
          class="dense"
          caption={p.tolerance > 0 ? `published figures to ${pretty(`${(p.tolerance * 100).toPrecision(2)} %`)}` : undefined}
          columns={cellColumns(view)}
          rows={cells}
          keyOf={(c) => `${c.load}/${c.variant}/${c.metric}/${c.column}`}
        />
      )}
      {claims.length > 0 && (
        <Table id={`${props.id}-claims`} label={`claims of ${p.source}`} class="dense" columns={claimColumns()} rows={claims} keyOf={(c) => `${c.load}/${c.text}/${c.metric}/${c.left}`} />
      )}
      {cells.length + claims.length === 0 && <p class="empty">Nothing of it is about the chosen variants and loads.</p>}
    </div>
  );
}

/** Only web addresses become links: the study's author wrote them. */
export function safeLink(url: string): boolean {
  return /^https?:\/\//.test(url);
}

export function oursText(view: View, c: PublishedCell): string {
  const unit = view.metric(c.metric)?.unit;
  return c.ours === undefined || unit === undefined ? "–" : interval(c.ours, unit);
}

function cellColumns(view: View): Column<PublishedCell>[] {
  return [
    {
      id: "variant",
      head: "variant",
      text: (c) => c.variant,
      cell: (c) => (
        <>
          <Swatch look={view.look(c.variant)} /> {c.variant}
        </>
      ),
    },
    { id: "load", head: "load", text: (c) => c.load },
    { id: "metric", head: "metric", text: (c) => c.metric || c.column, cell: (c) => <span title={`column ${c.column}`}>{c.metric || c.column}</span> },
    {
      id: "published",
      head: "published",
      numeric: true,
      text: (c) => c.printed,
      sort: (c) => c.lo,
      raw: [
        { head: "published_lo", of: (c) => c.lo },
        { head: "published_hi", of: (c) => c.hi },
      ],
    },
    {
      id: "ours",
      head: "ours",
      numeric: true,
      text: (c) => oursText(view, c),
      sort: (c) => c.ours?.value,
      raw: [
        { head: "ours", of: (c) => c.ours?.value },
        { head: "ours_lo", of: (c) => c.ours?.lo },
        { head: "ours_hi", of: (c) => c.ours?.hi },
      ],
    },
    { id: "agreement", head: "agreement", text: (c) => c.agreement, cell: (c) => <Agreement word={c.agreement} /> },
    { id: "detail", head: "detail", text: (c) => c.detail, cell: (c) => <small>{pretty(c.detail)}</small> },
  ];
}

function claimColumns(): Column<PublishedClaim>[] {
  return [
    { id: "claim", head: "claim", text: (c) => c.text },
    { id: "taken", head: "taken as", text: taken, cell: (c) => <small>{taken(c)}</small> },
    { id: "load", head: "load", text: (c) => c.load },
    {
      id: "ours",
      head: "ours",
      under: "left / right",
      numeric: true,
      text: (c) => (c.ours ? `${ratioParts(c.ours).value} ${ratioParts(c.ours).interval}` : "–"),
      sort: (c) => c.ours?.value,
      raw: [
        { head: "ratio", of: (c) => c.ours?.value },
        { head: "ratio_lo", of: (c) => c.ours?.lo },
        { head: "ratio_hi", of: (c) => c.ours?.hi },
      ],
    },
    { id: "verdict", head: "verdict", text: (c) => c.verdict, cell: (c) => <Agreement word={c.verdict} /> },
    { id: "detail", head: "detail", text: (c) => c.detail, cell: (c) => <small>{pretty(c.detail)}</small> },
  ];
}

/** A claim as it was taken apart: "response.p50 of envoy higher than that of direct". */
export function taken(c: PublishedClaim): string {
  const relation = c.relation === "equal" ? "equal to" : `${c.relation} than`;
  return `${c.metric} of ${c.left} ${relation} that of ${c.right}${c.size ? ` ${c.size}` : ""}`;
}

const marks: Record<string, [mark: string, kind: string]> = {
  covered: ["✓", "good"],
  supported: ["✓", "good"],
  "same order": ["≈", "fair"],
  "opposite order": ["✕", "bad"],
  contradicted: ["✕", "bad"],
  "not supported": ["~", "fair"],
};

function Agreement(props: { word: string }): JSX.Element {
  const [mark, kind] = marks[props.word] ?? ["?", "none"];
  return (
    <span class={`agreement ${kind}`}>
      <i aria-hidden="true">{mark}</i> {props.word}
    </span>
  );
}
