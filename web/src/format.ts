// Numbers as people read them: three significant digits, a sensible unit, one
// unit for a value and its interval.
import type { Estimate } from "./model";

/** No-break space between a number and its unit. */
export const nbsp = "\u00a0";
const minus = "\u2212";

interface Scale {
  /** Multiplies the SI value. */
  by: number;
  unit: string;
  /** A percent sign and "/s" follow the number in their own ways. */
  gap: string;
}

function timeScale(s: number): Scale {
  const a = Math.abs(s);
  if (a >= 0.9995) return { by: 1, unit: "s", gap: nbsp };
  if (a >= 0.9995e-3) return { by: 1e3, unit: "ms", gap: nbsp };
  if (a >= 0.9995e-6 || a === 0) return { by: 1e6, unit: "µs", gap: nbsp };
  return { by: 1e9, unit: "ns", gap: nbsp };
}

function byteScale(b: number): Scale {
  const names = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  let a = Math.abs(b);
  while (a >= 1023.5 && i < names.length - 1) {
    a /= 1024;
    i++;
  }
  return { by: 1 / 1024 ** i, unit: names[i] ?? "B", gap: nbsp };
}

function bitScale(x: number): Scale {
  const a = Math.abs(x);
  if (a >= 0.9995e9) return { by: 1e-9, unit: "Gbit/s", gap: nbsp };
  if (a >= 0.9995e6) return { by: 1e-6, unit: "Mbit/s", gap: nbsp };
  if (a >= 0.9995e3) return { by: 1e-3, unit: "kbit/s", gap: nbsp };
  return { by: 1, unit: "bit/s", gap: nbsp };
}

/** The scale in which x of this unit is best read. */
export function scaleOf(unit: string, x: number): Scale {
  switch (unit) {
    case "s":
    // What CPU is given per stands in the heading.
    case "s/1k requests":
    case "s/1k packets":
    case "s/Gbit":
      return timeScale(x);
    case "bit/s":
      return bitScale(x);
    case "bytes":
      return byteScale(x);
    case "share":
      return { by: 100, unit: "%", gap: nbsp };
    case "/s":
    case "/GB":
      return { by: 1, unit, gap: "" };
    default:
      return { by: 1, unit, gap: unit === "" ? "" : nbsp };
  }
}

/** Decimals that give x three significant digits. */
export function decimals(x: number, digits = 3): number {
  const a = Math.abs(x);
  if (a === 0 || !Number.isFinite(a)) return 0;
  // toPrecision rounds first, so that 9.996 counts as 10.0.
  const rounded = Number(a.toPrecision(digits));
  return Math.max(0, digits - 1 - Math.floor(Math.log10(rounded)));
}

/** x with a fixed number of decimals, thousands separators and a true minus. */
export function fixed(x: number, places: number): string {
  const body = Math.abs(x).toFixed(Math.min(places, 20));
  const [whole = "0", fraction] = body.split(".");
  const grouped = whole.replace(/\B(?=(\d{3})+(?!\d))/g, ",");
  const text = fraction === undefined ? grouped : `${grouped}.${fraction}`;
  return x < 0 && Number(body) !== 0 ? minus + text : text;
}

/** Three significant digits, e.g. 71.2, 0.0123, 124,000; all four of 1,998. */
export function number(x: number): string {
  if (!Number.isFinite(x)) return "–";
  const rounded = Number(x.toPrecision(3));
  return fixed(Math.abs(x) >= 1000 && Math.abs(x) < 1e4 ? Math.round(x) : rounded, decimals(x));
}

/** A share of successes; never rounded up to 100 %. */
export function share(x: number): string {
  if (x === 1 || x === 0) return `${x * 100}${nbsp}%`;
  if (x <= 0.9) return `${fixed(x * 100, decimals(x * 100))}${nbsp}%`;
  // Two digits of what is missing, rounded down: 99.9996 % must not read 100 %.
  const missing = (1 - x) * 100;
  const factor = 10 ** Math.min(6, Math.max(1, Math.ceil(-Math.log10(missing)) + 1));
  const percent = Math.min(99.999999, Math.floor(x * 100 * factor + 1e-6) / factor);
  return `${fixed(percent, 6).replace(/(\.\d+?)0+$/, "$1")}${nbsp}%`;
}

/** One value with its unit. */
export function value(x: number, unit: string): string {
  if (!Number.isFinite(x)) return "–";
  if (unit === "share") return share(x);
  const s = scaleOf(unit, x);
  return number(x * s.by) + s.gap + s.unit;
}

/** A time in seconds. */
export function time(s: number): string {
  return value(s, "s");
}

/** A round number for an axis: "10", "0.5". */
export function short(x: number): string {
  const text = fixed(x, 6);
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

/** A round time for an axis: "10 ms", not "10.0 ms". */
export function shortTime(s: number): string {
  return time(s).replace(/\.0+(?=\D)|(\.\d*?[1-9])0+(?=\D)/, "$1");
}

/** A difference with its sign; differences of shares are percentage points. */
export function difference(x: number, unit: string): string {
  const s = scaleOf(unit, x);
  return sign(x) + number(Math.abs(x) * s.by) + s.gap + differenceUnit(unit, s.unit);
}

function differenceUnit(unit: string, scaled: string): string {
  return unit === "share" ? "points" : scaled;
}

function sign(x: number): string {
  if (x === 0) return "";
  return x > 0 ? "+" : minus;
}

/** "743 µs [740, 746]": value and interval in one unit. */
export function interval(e: Estimate, unit: string): string {
  if (unit === "share") return `${share(e.value)} [${share(e.lo)}, ${share(e.hi)}]`;
  const s = scaleOf(unit, e.value);
  const places = decimals(e.value * s.by);
  return `${number(e.value * s.by)}${s.gap}${s.unit} [${fixed(e.lo * s.by, places)}, ${fixed(e.hi * s.by, places)}]`;
}

/** "+672 µs [+655, +690]": the number of the difference and of its interval, apart. */
export function differenceParts(e: Estimate, unit: string): { value: string; interval: string } {
  // As the other formats choose it: by the value, unless the interval dwarfs it.
  const size = Math.max(Math.abs(e.value), Math.max(Math.abs(e.lo), Math.abs(e.hi)) / 2);
  const s = scaleOf(unit, size);
  const places = unit === "share" ? Math.min(4, decimals(size * 100)) : decimals(size * s.by);
  const signed = (x: number): string => {
    const text = fixed(Math.abs(x * s.by), places);
    return Number(text.replace(/,/g, "")) === 0 ? text : sign(x) + text;
  };
  return {
    value: signed(e.value) + (s.gap || nbsp) + differenceUnit(unit, s.unit),
    interval: `[${signed(e.lo)}, ${signed(e.hi)}]`,
  };
}

/** A ratio: "+3.2 %" near one, "9.40×" away from it. */
export function ratio(r: number): string {
  if (!Number.isFinite(r) || r <= 0) return "–";
  if (r > 0.5 && r < 2) {
    const percent = (r - 1) * 100;
    const places = Math.abs(percent) < 9.95 ? 1 : 0;
    const text = fixed(Math.abs(percent), places);
    return (Number(text) === 0 ? "" : sign(percent)) + text + nbsp + "%";
  }
  return `${number(r)}×`;
}

/** "9.40× [9.20, 9.70]", or percentages where the ratio is near one. */
export function ratioParts(e: Estimate): { value: string; interval: string } {
  return { value: ratio(e.value), interval: `[${bare(ratio(e.lo))}, ${bare(ratio(e.hi))}]` };
}

function bare(text: string): string {
  return text.endsWith("×") ? text.slice(0, -1) : text;
}

/** A duration for people: "7 m 12 s", "1 h 04 m", "12.3 s". */
export function duration(s: number): string {
  if (s < 60) return value(s, "s");
  const total = Math.round(s);
  const h = Math.floor(total / 3600);
  const m = Math.floor((total % 3600) / 60);
  const two = (n: number): string => String(n).padStart(2, "0");
  if (h > 0) return `${h}${nbsp}h${nbsp}${two(m)}${nbsp}m`;
  return `${m}${nbsp}m${nbsp}${two(total % 60)}${nbsp}s`;
}

/** Date and time in UTC, so that every reader sees the same: "2026-11-20 23:40 UTC". */
export function date(iso: string): string {
  const d = new Date(iso);
  if (Number.isNaN(d.getTime()) || d.getUTCFullYear() < 2000) return "–";
  return `${d.toISOString().slice(0, 16).replace("T", " ")} UTC`;
}

/** Time of day in UTC, to the second. */
export function clock(iso: string): string {
  const d = new Date(iso);
  if (Number.isNaN(d.getTime()) || d.getUTCFullYear() < 2000) return "–";
  return d.toISOString().slice(11, 19);
}

/** 12,345 */
export function count(n: number): string {
  return fixed(n, 0);
}

/** A quantile as a percentile: 0.999 is "99.9". */
export function percentile(q: number): string {
  // (1 - 1e-5) * 100 is 99.99900000000001 in floating point.
  return String(Number((q * 100).toFixed(6)));
}

/** A probability: "0.031", "< 0.001". */
export function probability(p: number): string {
  if (p < 0.001) return "< 0.001";
  return String(Number(p.toPrecision(2)));
}

/** "2 notes", "1 note". */
export function plural(n: number, noun: string): string {
  return `${count(n)} ${noun}${n === 1 ? "" : "s"}`;
}

/** Signs as typographers set them. */
export function pretty(text: string): string {
  return text.replace(/>=/g, "≥").replace(/<=/g, "≤").replace(/\+-/g, "±").replace(/ %/g, "\u00a0%");
}
