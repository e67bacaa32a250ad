// Tables as text for other programs, and charts as files.

/** A table as it is copied: numbers formatted for people, and raw for programs. */
export interface Sheet {
  head: string[];
  /** Heads of the raw columns, with SI units. */
  rawHead: string[];
  rows: string[][];
  raw: string[][];
  /** Which columns hold numbers. */
  numeric: boolean[];
}

/** Markdown with aligned columns; it pastes into a pull request. */
export function markdown(s: Sheet): string {
  const clean = (x: string): string => plain(x).replace(/\|/g, "\\|").replace(/</g, "&lt;").replace(/\s*\n\s*/g, " ");
  const all = [s.head, ...s.rows].map((row) => row.map(clean));
  const width = s.head.map((_, i) => Math.max(3, ...all.map((row) => (row[i] ?? "").length)));
  const pad = (x: string, i: number): string => (s.numeric[i] ? x.padStart(width[i] ?? 0) : x.padEnd(width[i] ?? 0));
  const line = (row: string[]): string => `| ${s.head.map((_, i) => pad(row[i] ?? "", i)).join(" | ")} |`;
  const rule = `|${s.head.map((_, i) => (s.numeric[i] ? `${"-".repeat((width[i] ?? 0) + 1)}:` : `:${"-".repeat((width[i] ?? 0) + 1)}`)).join("|")}|`;
  const [head = [], ...rows] = all;
  return [line(head), rule, ...rows.map(line)].join("\n") + "\n";
}

/** CSV (RFC 4180) of the raw values in SI units. */
export function csv(s: Sheet): string {
  const quote = (x: string): string => {
    // A cell that starts like a formula would be run by a spreadsheet.
    const safe = /^[=+@\t]/.test(x) || /^-(?![\d.])/.test(x) ? `'${x}` : x;
    return /[",\r\n]/.test(safe) ? `"${safe.replace(/"/g, '""')}"` : safe;
  };
  return [s.rawHead, ...s.raw].map((row) => row.map(quote).join(",")).join("\r\n") + "\r\n";
}

/** A LaTeX tabular for booktabs. */
export function latex(s: Sheet): string {
  const line = (row: string[]): string => `  ${row.map(tex).join(" & ")} \\\\`;
  return [
    `\\begin{tabular}{${s.numeric.map((n) => (n ? "r" : "l")).join("")}}`,
    "  \\toprule",
    line(s.head),
    "  \\midrule",
    ...s.rows.map(line),
    "  \\bottomrule",
    "\\end{tabular}",
    "",
  ].join("\n");
}

const texNames: Record<string, string> = {
  "\\": "\\textbackslash{}",
  "~": "\\textasciitilde{}",
  "^": "\\textasciicircum{}",
  "µ": "$\\mu$",
  "\u2212": "$-$",
  "×": "$\\times$",
  "±": "$\\pm$",
  "≥": "$\\geq$",
  "–": "--",
  "\u00a0": "~",
  "<": "$<$",
  ">": "$>$",
};

function tex(x: string): string {
  return x.replace(/[\\~^µ\u2212×±≥–\u00a0<>&%$#_{}]/g, (c) => texNames[c] ?? `\\${c}`);
}

function plain(x: string): string {
  return x.replace(/\u00a0/g, " ").replace(/\u2212/g, "-");
}

/** Puts text on the clipboard; pages opened from disk may lack the modern way. */
export async function copy(text: string): Promise<void> {
  if (navigator.clipboard) {
    try {
      await navigator.clipboard.writeText(text);
      return;
    } catch {
      // Refused: fall through to the old way.
    }
  }
  const area = document.createElement("textarea");
  area.value = text;
  area.setAttribute("readonly", "");
  area.className = "offscreen";
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  if (!done) throw new Error("the browser refused to copy");
}

/** A chart as it is saved: its title, and what its colours mean where the chart itself does not say. */
export interface Picture {
  svg: SVGSVGElement;
  title: string;
  legend: { label: string; color: string }[];
}

const spaceNS = "http://www.w3.org/2000/svg";

/** The chart as a file that stands alone: light, with title and background, no style sheet needed. */
export function standalone(p: Picture): string {
  const { width, height } = size(p);
  const chart = p.svg.cloneNode(true) as SVGSVGElement;
  chart.querySelectorAll("[data-screen]").forEach((e) => e.remove());
  chart.setAttribute("y", String(top(p)));
  chart.setAttribute("font-size", "12");
  for (const name of ["style", "role", "aria-label", "font-family"]) chart.removeAttribute(name);
  const page = element("svg", { width, height, viewBox: `0 0 ${width} ${height}`, color: "var(--text)", "font-size": 12, "font-family": "-apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'Helvetica Neue', Arial, sans-serif" });
  const heading = element("text", { x: 4, y: 17, "font-size": 13, "font-weight": 600, fill: "var(--text)" }, p.title);
  page.append(element("title", {}, p.title), element("rect", { width: "100%", height: "100%", fill: "var(--paper)" }), heading, ...legend(p), chart);
  return resolve(new XMLSerializer().serializeToString(page));
}

function legend(p: Picture): SVGElement[] {
  let x = 4;
  return p.legend.flatMap(({ label, color }) => {
    const parts = [element("rect", { x, y: 28, width: 11, height: 11, rx: 2, fill: color }), element("text", { x: x + 16, y: 38, fill: "var(--text)" }, label)];
    x += 36 + 6.6 * label.length;
    return parts;
  });
}

function element(name: string, attributes: Record<string, string | number>, text = ""): SVGElement {
  const e = document.createElementNS(spaceNS, name);
  for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, String(value));
  e.textContent = text;
  return e;
}

/** Where the chart begins, under title and legend. */
function top(p: Picture): number {
  return p.legend.length > 0 ? 50 : 28;
}

function size(p: Picture): { width: number; height: number } {
  return { width: Number(p.svg.getAttribute("width")), height: Number(p.svg.getAttribute("height")) + top(p) };
}

/** Replaces var(--x) by what it is in the light theme, where a file is most often used. */
function resolve(text: string): string {
  const probe = document.createElement("div");
  probe.className = "light";
  document.body.append(probe);
  const style = getComputedStyle(probe);
  const out = text.replace(/var\((--[\w-]+)\)/g, (whole, name: string) => style.getPropertyValue(name).trim() || whole);
  probe.remove();
  return out;
}

/** Saves the chart as an SVG file. */
export function saveSVG(p: Picture): void {
  save(new Blob([standalone(p)], { type: "image/svg+xml" }), `${fileName(p.title)}.svg`);
}

/** Saves the chart as a PNG file with twice the pixels, for slides and print. */
export async function savePNG(p: Picture): Promise<void> {
  const { width, height } = size(p);
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(standalone(p))}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = width * 2;
  canvas.height = height * 2;
  canvas.getContext("2d")?.drawImage(image, 0, 0, canvas.width, canvas.height);
  const blob = await new Promise<Blob | null>((done) => canvas.toBlob(done, "image/png"));
  if (blob === null) throw new Error("the browser could not draw the picture");
  save(blob, `${fileName(p.title)}.png`);
}

function save(blob: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  // The browser reads the blob after the click returns.
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** A file name out of a title. */
export function fileName(title: string): string {
  return title.toLowerCase().replace(/[^a-z0-9.]+/g, "-").replace(/^-+|-+$/g, "").slice(0, 80) || "chart";
}
