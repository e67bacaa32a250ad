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

/** The chart as a file that stands alone: light, with a background, no style sheet needed. */
export function standalone(svg: SVGSVGElement, title: string): string {
  const copied = svg.cloneNode(true) as SVGSVGElement;
  copied.querySelectorAll("[data-screen]").forEach((e) => e.remove());
  const { width, height } = size(svg);
  copied.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copied.setAttribute("width", String(width));
  copied.setAttribute("height", String(height));
  copied.setAttribute("viewBox", `0 0 ${width} ${height}`);
  copied.setAttribute("color", "var(--text)");
  copied.setAttribute("font-family", "-apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'Helvetica Neue', Arial, sans-serif");
  copied.setAttribute("font-size", "12");
  copied.removeAttribute("style");
  const name = document.createElementNS("http://www.w3.org/2000/svg", "title");
  name.textContent = title;
  const paper = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  paper.setAttribute("width", "100%");
  paper.setAttribute("height", "100%");
  paper.setAttribute("fill", "var(--paper)");
  copied.prepend(name, paper);
  return resolve(new XMLSerializer().serializeToString(copied));
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

function size(svg: SVGSVGElement): { width: number; height: number } {
  return { width: Number(svg.getAttribute("width")), height: Number(svg.getAttribute("height")) };
}

/** Saves the chart as an SVG file. */
export function saveSVG(svg: SVGSVGElement, title: string): void {
  save(new Blob([standalone(svg, title)], { type: "image/svg+xml" }), `${fileName(title)}.svg`);
}

/** Saves the chart as a PNG file with twice the pixels, for slides and print. */
export async function savePNG(svg: SVGSVGElement, title: string): Promise<void> {
  const { width, height } = size(svg);
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(standalone(svg, title))}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = width * 2;
  canvas.height = height * 2;
  canvas.getContext("2d")?.drawImage(image, 0, 0, canvas.width, canvas.height);
  const blob = await new Promise<Blob | null>((done) => canvas.toBlob(done, "image/png"));
  if (blob === null) throw new Error("the browser could not draw the picture");
  save(blob, `${fileName(title)}.png`);
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
