import { expect, test } from "vitest";
import { csv, fileName, latex, markdown, type Sheet } from "../src/export";

const sheet: Sheet = {
  head: ["variant", "p50", "difference"],
  rawHead: ["variant", "p50 (s)", "difference (s)"],
  rows: [
    ["direct", "71.2\u00a0µs", "~"],
    ["a|b <x>", "1.92\u00a0ms", "\u2212672\u00a0µs [9.4×]"],
  ],
  raw: [
    ["direct", "0.0000712", ""],
    ['a "b", c', "0.00192", "-0.000672"],
  ],
  numeric: [false, true, true],
};

test("Markdown", () => {
  expect(markdown(sheet)).toBe(
    [
      "| variant     |     p50 |     difference |",
      "|:------------|--------:|---------------:|",
      "| direct      | 71.2 µs |              ~ |",
      "| a\\|b &lt;x> | 1.92 ms | -672 µs [9.4×] |",
      "",
    ].join("\n"),
  );
});

test("CSV holds raw values and quotes what needs it", () => {
  expect(csv(sheet)).toBe('variant,p50 (s),difference (s)\r\ndirect,0.0000712,\r\n"a ""b"", c",0.00192,-0.000672\r\n');
});

test.each(["=HYPERLINK(1)", "+cmd", "@x", "-cmd"])("CSV defuses %s", (text) => {
  expect(csv({ ...sheet, raw: [[text, "-1.5", "-.5"]] })).toContain(`\r\n'${text},-1.5,-.5\r\n`);
});

test("LaTeX", () => {
  expect(latex({ ...sheet, rows: [["50 % & $x_1$ {#}", "71.2\u00a0µs", "~"], ["\\", "\u22121", "2×"]] })).toBe(
    [
      "\\begin{tabular}{lrr}",
      "  \\toprule",
      "  variant & p50 & difference \\\\",
      "  \\midrule",
      "  50 \\% \\& \\$x\\_1\\$ \\{\\#\\} & 71.2~$\\mu$s & \\textasciitilde{} \\\\",
      "  \\textbackslash{} & $-$1 & 2$\\times$ \\\\",
      "  \\bottomrule",
      "\\end{tabular}",
      "",
    ].join("\n"),
  );
});

test("file names", () => {
  expect(fileName("response p99.9, steady: 2,000/s")).toBe("response-p99.9-steady-2-000-s");
  expect(fileName("µ")).toBe("chart");
});
