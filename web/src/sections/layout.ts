// Where nodes, pods and hops stand in the picture of the topology; pure.
import { value } from "../format";
import type { Device, Node } from "../model";

export interface Placed {
  label: string;
  note?: string;
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface Layout {
  width: number;
  height: number;
  /** Clusters, drawn only where there is more than one. */
  groups: Placed[];
  nodes: Placed[];
  pods: Placed[];
  hops: Placed[];
  /** SVG paths from hop to hop. */
  lines: string[];
  /** What passed devices: in pods and nodes, and on their ends of the underlay. */
  rates: Rate[];
  /** The underlay that joins the nodes, and each one's end of it; width by traffic. */
  underlay: { x1: number; y1: number; x2: number; y2: number; width: number }[];
}

export interface Rate {
  text: string;
  x: number;
  y: number;
}

const nodeWidth = 250;
const gap = 64;
const pad = 12;
const head = 26;
const hop = { height: 26, gap: 16 };
const line16 = 16;
const bus = { drop: 34, height: 42, thin: 1.5, thick: 7 };

interface Hop {
  where: string;
  what: string;
}

/** "client-0 sidecar" is the sidecar in client-0. */
export function splitHop(text: string): Hop {
  const [where = "", ...rest] = text.trim().split(/\s+/);
  return { where, what: rest.join(" ") || where };
}

/** Nodes side by side, pods stacked in them, the hops of a request inside. */
export function layout(nodes: Node[], path: string[], devices: Device[] = []): Layout {
  const hops = path.map(splitHop);
  const columns = withStrangers(arranged(nodes), hops);
  const clusters = new Set(columns.map((n) => `${n.region}/${n.cluster}`));
  const grouped = clusters.size > 1;
  const out: Layout = { width: 0, height: 0, groups: [], nodes: [], pods: [], hops: [], lines: [], rates: [], underlay: [] };
  const placed = new Map<number, Placed>();
  const top = grouped ? 34 : 2;
  columns.forEach((node, i) => {
    const x = (grouped ? 10 : 2) + i * (nodeWidth + gap);
    placeNode(node, { x, y: top }, hops, devices, out, placed);
  });
  const tallest = Math.max(0, ...out.nodes.map((n) => n.height));
  out.nodes.forEach((n) => (n.height = tallest));
  if (grouped) out.groups = groups(columns, out.nodes, tallest);
  out.width = columns.length * (nodeWidth + gap) - gap + (grouped ? 20 : 4);
  out.height = top + tallest + (grouped ? 12 : 2);
  placeUnderlay(columns, devices, out);
  const order = [...placed.keys()].sort((a, b) => a - b);
  out.hops = order.map((i) => placed.get(i)).filter((p) => p !== undefined);
  out.lines = out.hops.slice(1).map((to, i) => line(out.hops[i] ?? to, to));
  return out;
}

/** Clients left, servers right, clusters together. */
function arranged(nodes: Node[]): Node[] {
  const rank = (n: Node): number => (n.pods.some((p) => p.role === "client") ? 0 : n.pods.some((p) => p.role === "server") ? 2 : 1);
  const clusterRank = new Map<string, number>();
  for (const n of nodes) {
    const c = `${n.region}/${n.cluster}`;
    clusterRank.set(c, Math.min(clusterRank.get(c) ?? 9, rank(n)));
  }
  const of = (n: Node): number => clusterRank.get(`${n.region}/${n.cluster}`) ?? 9;
  const name = (n: Node): string => `${n.region}/${n.cluster}`;
  return [...nodes].sort((a, b) => of(a) - of(b) || name(a).localeCompare(name(b)) || rank(a) - rank(b));
}

/** Adds a node for every place that a hop names and the site does not. */
function withStrangers(nodes: Node[], hops: Hop[]): Node[] {
  const known = new Set(nodes.flatMap((n) => [n.name, ...n.pods.map((p) => p.name)]));
  const out = [...nodes];
  for (const h of hops) {
    if (known.has(h.where)) continue;
    known.add(h.where);
    const first = out[0];
    out.splice(1, 0, { region: first?.region ?? "", cluster: first?.cluster ?? "", name: h.where, pods: [] });
  }
  return out;
}

function placeNode(node: Node, at: { x: number; y: number }, hops: Hop[], devices: Device[], out: Layout, placed: Map<number, Placed>): void {
  let y = at.y + head + 4;
  for (const pod of node.pods) {
    const own = devices.filter((d) => d.kind === "pod" && d.place === pod.name);
    const told = own.length * line16;
    const height = head + told + stack(hops, pod.name) + (stack(hops, pod.name) > 0 ? pad : 4);
    own.forEach((d, i) => out.rates.push({ text: rate(d), x: at.x + 2 * pad - 2, y: y + head + (i + 0.5) * line16 }));
    out.pods.push({ label: pod.name, note: pod.role, x: at.x + pad, y, width: nodeWidth - 2 * pad, height });
    placeHops(hops, pod.name, { x: at.x + 2 * pad, y: y + head + told }, placed);
    y += height + hop.gap;
  }
  placeHops(hops, node.name, { x: at.x + 2 * pad, y }, placed);
  y += stack(hops, node.name) + (stack(hops, node.name) > 0 ? pad : 0);
  const tunnels = devices.filter((d) => d.kind === "node" && d.place === node.name);
  tunnels.forEach((d, i) => out.rates.push({ text: rate(d), x: at.x + pad, y: y + (i + 0.5) * line16 }));
  y += tunnels.length * line16 + (tunnels.length > 0 ? 8 : 0);
  const place = [node.region, node.cluster].filter((s) => s !== "").join("/");
  out.nodes.push({ label: node.name, note: place, x: at.x, y: at.y, width: nodeWidth, height: Math.max(60, y - at.y) });
}

/** "eth0 ↓ 2.04 Gbit/s ↑ 527 kbit/s": to the place and from it. */
export function rate(d: Device): string {
  return `${d.name} ↓ ${value(d.in_bps, "bit/s")} ↑ ${value(d.out_bps, "bit/s")}`;
}

/** A line below the nodes, and from it to every node one as wide as its traffic. */
function placeUnderlay(columns: Node[], devices: Device[], out: Layout): void {
  const ends = columns.flatMap((n, i) => {
    const device = devices.find((d) => d.kind === "underlay" && d.place === n.name);
    const box = out.nodes[i];
    return device && box ? [{ device, box }] : [];
  });
  const most = Math.max(...ends.map((e) => e.device.in_bps + e.device.out_bps));
  const y = out.height + bus.drop;
  for (const { device, box } of ends) {
    const x = box.x + 20;
    const share = most > 0 ? (device.in_bps + device.out_bps) / most : 0;
    out.underlay.push({ x1: x, y1: box.y + box.height, x2: x, y2: y, width: bus.thin + share * (bus.thick - bus.thin) });
    out.rates.push({ text: rate(device), x: x + 12, y: y - bus.drop / 2 + 4 });
  }
  const [first, last] = [out.underlay[0], out.underlay.at(-1)];
  if (first === undefined || last === undefined) return;
  out.underlay.push({ x1: first.x1, y1: y, x2: last.x1, y2: y, width: Math.max(...out.underlay.map((l) => l.width)) });
  out.height += bus.height;
}

function placeHops(hops: Hop[], where: string, at: { x: number; y: number }, placed: Map<number, Placed>): void {
  let y = at.y;
  hops.forEach((h, i) => {
    if (h.where !== where) return;
    placed.set(i, { label: h.what, x: at.x, y, width: nodeWidth - 4 * pad, height: hop.height });
    y += hop.height + hop.gap;
  });
}

function stack(hops: Hop[], where: string): number {
  const n = hops.filter((h) => h.where === where).length;
  return n === 0 ? 0 : n * hop.height + (n - 1) * hop.gap;
}

function groups(columns: Node[], nodes: Placed[], tallest: number): Placed[] {
  const out = new Map<string, Placed>();
  columns.forEach((c, i) => {
    const box = nodes[i];
    if (box === undefined) return;
    const name = [c.region, c.cluster].filter((s) => s !== "").join(", ");
    const g = out.get(name);
    delete box.note;
    if (g) g.width = box.x + box.width + 8 - g.x;
    else out.set(name, { label: name, x: box.x - 8, y: 4, width: box.width + 16, height: tallest + 40 });
  });
  return [...out.values()];
}

/** From one hop to the next: straight down in one stack, else a curve from side to side. */
function line(a: Placed, b: Placed): string {
  const middle = (p: Placed): number => p.y + p.height / 2;
  if (a.x === b.x) {
    const x = a.x + 24;
    const down = b.y > a.y;
    return `M${x},${down ? a.y + a.height : a.y}L${x},${down ? b.y - 2 : b.y + b.height + 2}`;
  }
  const right = b.x > a.x;
  const [x1, x2] = right ? [a.x + a.width, b.x - 2] : [a.x, b.x + b.width + 2];
  const bend = (x2 - x1) / 2;
  return `M${x1},${middle(a)}C${x1 + bend},${middle(a)} ${x2 - bend},${middle(b)} ${x2},${middle(b)}`;
}
