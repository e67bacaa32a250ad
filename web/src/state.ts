// What the reader chose, kept in the URL fragment so that a link shows the same
// page. Only what differs from the default is written.

export interface State {
  /** Variants and loads that are switched off. */
  hide: string[];
  hideLoads: string[];
  /** Metric of the forest plot; empty: the first primary one. */
  metric: string;
  scale: "absolute" | "relative";
  dots: boolean;
  /** Which metrics the results table lists. */
  rows: "primary" | "all";
  filter: string;
  /** Percentile curves. */
  kind: "response" | "service" | "failed";
  y: "log" | "linear";
  /** Trial of the picture of latency over time; -1: the first that has one. */
  trial: number;
  /** Load and block of the pictures of failover; empty and -1: the first. */
  under: string;
  round: number;
  resource: "cpu" | "cores" | "memory";
  hideParts: string[];
  /** Ledger: only rows in which the variants differ. */
  differs: boolean;
  /** Variant whose path is drawn; empty: the last that is not a control. */
  path: string;
  /** Load whose traffic is drawn on the topology; empty: the first that has some. */
  traffic: string;
  /** Findings of one variant and load, "variant/load"; empty: all. */
  at: string;
  /** Column of a table by table: "column" or "-column" for descending. */
  sort: Record<string, string>;
  /** Section to scroll to when the page opens. */
  section: string;
}

export const initial: State = {
  hide: [],
  hideLoads: [],
  metric: "",
  scale: "absolute",
  dots: true,
  rows: "primary",
  filter: "",
  kind: "response",
  y: "log",
  trial: -1,
  under: "",
  round: -1,
  resource: "cpu",
  hideParts: [],
  differs: false,
  path: "",
  traffic: "",
  at: "",
  sort: {},
  section: "",
};

const lists = { hide: "hide", loads: "hideLoads", parts: "hideParts" } as const;
const texts = { under: "under", metric: "metric", q: "filter", path: "path", traffic: "traffic", at: "at", section: "section" } as const;
const choices = {
  scale: ["scale", ["absolute", "relative"]],
  rows: ["rows", ["primary", "all"]],
  kind: ["kind", ["response", "service", "failed"]],
  y: ["y", ["log", "linear"]],
  res: ["resource", ["cpu", "cores", "memory"]],
} as const;
const flags = { dots: "dots", differs: "differs" } as const;

/** Reads a fragment with or without its "#". What is unknown or ill-formed is ignored. */
export function parseState(fragment: string): State {
  const s: State = { ...initial, sort: {} };
  const raw = new URLSearchParams(fragment.replace(/^#/, ""));
  for (const [key, text] of raw) {
    if (Object.hasOwn(lists, key)) s[lists[key as keyof typeof lists]] = text.split(",").filter((x) => x !== "");
    else if (Object.hasOwn(texts, key)) s[texts[key as keyof typeof texts]] = text;
    else if (Object.hasOwn(flags, key)) s[flags[key as keyof typeof flags]] = text === "1";
    else if (Object.hasOwn(choices, key)) {
      const [field, known] = choices[key as keyof typeof choices];
      if ((known as readonly string[]).includes(text)) (s as unknown as Record<string, string>)[field] = text;
    } else if ((key === "trial" || key === "round") && /^\d{1,9}$/.test(text)) s[key] = Number(text);
    else if (key.startsWith("sort.")) s.sort[key.slice(5)] = text;
  }
  return s;
}

/** Writes a fragment without its "#"; empty where all is as it was. */
export function formatState(s: State): string {
  const out = new URLSearchParams();
  for (const [key, field] of Object.entries(lists)) if (s[field].length > 0) out.set(key, s[field].join(","));
  for (const [key, field] of Object.entries(texts)) if (s[field] !== "") out.set(key, s[field]);
  for (const [key, [field]] of Object.entries(choices)) if (s[field] !== initial[field]) out.set(key, s[field]);
  for (const [key, field] of Object.entries(flags)) if (s[field] !== initial[field]) out.set(key, s[field] ? "1" : "0");
  for (const key of ["trial", "round"] as const) if (s[key] >= 0) out.set(key, String(s[key]));
  for (const [table, column] of Object.entries(s.sort)) if (column !== "") out.set(`sort.${table}`, column);
  return out.toString();
}

/** list with item added, or removed if it is there. */
export function toggled(list: string[], item: string): string[] {
  return list.includes(item) ? list.filter((x) => x !== item) : [...list, item];
}
