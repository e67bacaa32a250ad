// Tables that sort, and copy themselves as Markdown, CSV and LaTeX.
import type { ComponentChildren, JSX } from "preact";
import { csv, latex, markdown, type Sheet } from "../export";
import { usePage } from "./context";
import { CopyButton } from "./controls";

export interface Column<R> {
  id: string;
  head: string;
  /** A second, smaller line of the head. */
  under?: string;
  title?: string;
  numeric?: boolean;
  /** What is copied as Markdown and LaTeX, and shown unless cell says otherwise. */
  text(row: R): string;
  cell?(row: R): ComponentChildren;
  /** What is sorted by; undefined sorts last. Text where absent. */
  sort?(row: R): number | string | undefined;
  /** Columns of the CSV, in SI units; the text under the head where absent. */
  raw?: { head: string; of(row: R): string | number | undefined }[];
}

export function Table<R>(props: {
  id: string;
  label: string;
  columns: Column<R>[];
  rows: R[];
  keyOf(row: R): string;
  classOf?(row: R): string;
  caption?: ComponentChildren;
  tools?: ComponentChildren;
  /** Further classes, e.g. "dense". */
  class?: string;
}): JSX.Element {
  const { state, set } = usePage();
  const order = state.sort[props.id] ?? "";
  const rows = sorted(props.rows, props.columns, order);
  const sortBy = (column: string): void => {
    const next = order === column ? `-${column}` : order === `-${column}` ? "" : column;
    set({ sort: { ...state.sort, [props.id]: next } });
  };
  const sheet = (): Sheet => sheetOf(props.columns, rows);
  return (
    <div class={`table ${props.class ?? ""}`}>
      <div class="table-head">
        <div class="caption">{props.caption}</div>
        <div class="tools">
          {props.tools}
          <span class="copy" role="group" aria-label={`copy ${props.label}`}>
            <span class="label">copy</span>
            <CopyButton label="Markdown" text={() => markdown(sheet())} />
            <CopyButton label="CSV" text={() => csv(sheet())} />
            <CopyButton label="LaTeX" text={() => latex(sheet())} />
          </span>
        </div>
      </div>
      <div class="scroll" tabIndex={0} role="region" aria-label={props.label}>
        <table>
          <thead>
            <tr>
              {props.columns.map((c) => (
                <th key={c.id} scope="col" class={c.numeric ? "num" : ""} aria-sort={ariaSort(order, c.id)} title={c.title}>
                  <button type="button" onClick={() => sortBy(c.id)}>
                    {c.head}
                    {c.under && <small>{c.under}</small>}
                    <i aria-hidden="true">{order === c.id ? "▲" : order === `-${c.id}` ? "▼" : ""}</i>
                  </button>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <tr key={props.keyOf(row)} class={props.classOf?.(row)}>
                {props.columns.map((c, i) => (i === 0 ? <th key={c.id} scope="row" class={c.numeric ? "num" : ""}>{show(c, row)}</th> : <td key={c.id} class={c.numeric ? "num" : ""}>{show(c, row)}</td>))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </div>
  );
}

function show<R>(c: Column<R>, row: R): ComponentChildren {
  return c.cell ? c.cell(row) : c.text(row);
}

function ariaSort(order: string, id: string): "ascending" | "descending" | undefined {
  if (order === id) return "ascending";
  return order === `-${id}` ? "descending" : undefined;
}

/** rows in the order that "column" or "-column" asks for; missing values last either way. */
export function sorted<R>(rows: R[], columns: Column<R>[], order: string): R[] {
  const down = order.startsWith("-");
  const column = columns.find((c) => c.id === (down ? order.slice(1) : order));
  if (column === undefined) return rows;
  const value = column.sort ?? column.text;
  return [...rows].sort((a, b) => {
    const x = value(a);
    const y = value(b);
    if (x === undefined || y === undefined) return x === y ? 0 : x === undefined ? 1 : -1;
    const by = typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y), "en", { numeric: true });
    return down ? -by : by;
  });
}

/** The table as text. */
export function sheetOf<R>(columns: Column<R>[], rows: R[]): Sheet {
  const raws = columns.map((c) => c.raw ?? [{ head: c.id, of: c.text }]);
  return {
    head: columns.map((c) => (c.under ? `${c.head} ${c.under}` : c.head)),
    rawHead: raws.flatMap((r) => r.map((x) => x.head)),
    rows: rows.map((row) => columns.map((c) => c.text(row))),
    raw: rows.map((row) => raws.flatMap((r) => r.map((x) => String(x.of(row) ?? "")))),
    numeric: columns.map((c) => c.numeric ?? false),
  };
}
