// The report model as Go writes it (internal/report/model.go). Values are in SI
// units: seconds, bytes, shares (0 to 1), requests or bits per second. A test in
// internal/report/html compares every field below with the Go structs.

export interface Model {
  schema: number;
  name: string;
  question: string;
  answer: string[];
  run: Run;
  variants: Variant[];
  loads: Load[];
  metrics: Metric[];
  cells: Cell[];
  comparisons: Comparison[];
  curves: Curve[];
  timelines: Timeline[];
  flows: Flow[];
  failovers: Failover[];
  resources: Resource[];
  ledger: LedgerRow[];
  topology: Topology;
  findings: Finding[];
  trials: Trial[];
  gates: Gate[];
  published?: Published[];
  fleet?: Fleet;
  breakdowns?: Breakdown[];
  provenance: Entry[];
  unavailable?: string[];
}

export interface Run {
  id: string;
  started: string;
  took_s: number;
  target: string;
  command: string;
  verify: string;
  baseline: string;
  blocks: number;
  planned_trials: number;
  done_trials: number;
  failed_trials: number;
  complete: boolean;
  stopped: string;
  plan_digest: string;
  /** A string where it is too large for a JavaScript number. */
  seed: number | string;
  version: string;
  level: number;
}

export interface Variant {
  name: string;
  stack: string[];
  baseline: boolean;
  control: boolean;
}

export interface Load {
  name: string;
  text: string;
  model: string;
  /** "requests", "stream" or "datagrams". */
  kind: string;
  /** Metrics of the main table; the first is what the answer is about. */
  main: string[];
  response_is_service: boolean;
  seconds: number;
}

export interface Metric {
  name: string;
  label: string;
  unit: string;
  better: string;
  primary: boolean;
}

export interface Estimate {
  value: number;
  lo: number;
  hi: number;
  n: number;
  method: string;
}

export interface Cell {
  variant: string;
  load: string;
  metric: string;
  values: Value[];
  estimate?: Estimate;
  reason?: string;
  pooled?: boolean;
  text?: string;
}

export interface Value {
  trial: number;
  block: number;
  value: number;
  invalid?: boolean;
}

/** "different", "~", "equivalent" or "unknown". */
export type Verdict = string;

export interface Comparison {
  variant: string;
  load: string;
  metric: string;
  difference?: Estimate;
  ratio?: Estimate;
  p: number;
  p_holm: number;
  exploratory: boolean;
  verdict: Verdict;
  reason?: string;
  floor: number;
  detectable: number;
}

export interface Curve {
  variant: string;
  load: string;
  kind: string;
  n: number;
  points: CurvePoint[];
}

export interface CurvePoint {
  q: number;
  value: number;
  lo: number;
  hi: number;
}

export interface Timeline {
  trial: number;
  slot_s: number;
  bounds_s: number[];
  /** [slot, bound index, count] */
  cells: [number, number, number][];
  succeeded: number[];
  failed: number[];
  mean_s: number[];
  max_s: number[];
}

/** One trial of a load that is not made of requests: one value an interval. */
export interface Flow {
  trial: number;
  length_s: number[];
  up_bps: number[];
  down_bps: number[];
  retransmits: number[];
  loss: number[];
  jitter_s: number[];
}

/** One trial of a load under a fault, by slots of the window. */
export interface Failover {
  trial: number;
  slot_s: number;
  answerers: Answerer[];
  /** Successes by answerer, then by slot. */
  answered: number[][];
  failed: number[];
  /** Of successes; 0: there are none. */
  median_s: number[];
  slowest_s: number[];
  harms: Harm[];
  /** Requests that the trace had no room for. */
  missing: number;
}

/** A region, or a server where all are in one. */
export interface Answerer {
  name: string;
  home: boolean;
}

export interface Harm {
  kind: string;
  struck: string[];
  injected?: Span;
  healed?: Span;
  error?: string;
}

/** Seconds from the start of the window. */
export interface Span {
  from_s: number;
  to_s: number;
}

export interface Resource {
  variant: string;
  load: string;
  component: string;
  cores?: Estimate;
  cpu_s_per_1k?: Estimate;
  cpu_s_per_gbit?: Estimate;
  throttled_s?: Estimate;
  memory_bytes?: Estimate;
}

export interface LedgerRow {
  key: string;
  differs: boolean;
  cells: LedgerCell[];
}

export interface LedgerCell {
  values: string[];
  sources: string[];
  claimed?: string;
  broken?: boolean;
}

export interface Topology {
  nodes: Node[];
  paths: Path[];
  traffic?: Traffic[];
}

/** What passed every device under one variant and load: medians over trials. */
export interface Traffic {
  variant: string;
  load: string;
  trials: number;
  devices: Device[];
}

export interface Device {
  kind: string;
  place: string;
  name: string;
  in_bps: number;
  out_bps: number;
  in_pps: number;
  out_pps: number;
  dropped_pps: number;
}

export interface Node {
  region: string;
  cluster: string;
  name: string;
  pods: Pod[];
}

export interface Pod {
  name: string;
  role: string;
}

export interface Path {
  variant: string;
  hops: string[];
}

export interface Trial {
  index: number;
  block: number;
  order: number;
  variant: string;
  load: string;
  state: string;
  error?: string;
  started: string;
  rate: number;
  p50_s: number;
  p99_s: number;
  success: number;
  logs?: string[];
}

export interface Gate {
  text: string;
  passed: boolean;
  value: number;
  detail: string;
}

/** What the variants would cost a number of pods under a load. */
export interface Fleet {
  pods: number;
  rate: number;
  costs: Cost[];
  /** What these numbers take for granted. */
  assumed: string[];
}

export interface Cost {
  variant: string;
  load: string;
  /** CPU of app, proxies and gateways, in cores. */
  cores?: Estimate;
  /** What that is more than the baseline's. */
  extra_cores?: Estimate;
  /** Of the sidecars, in bytes. */
  memory?: Estimate;
}

/** Where the time of requests went, from a trial of its own in which they were traced. */
export interface Breakdown {
  variant: string;
  load: string;
  n: number;
  traced: number;
  p50_s?: number;
  p99_s?: number;
  /** Mean of the requests about the median; the parts' add up to it. */
  at_median_s: number;
  measured?: Estimate;
  parts: BreakdownPart[];
  notes?: string[];
  /** Why there are no parts. */
  reason?: string;
}

export interface BreakdownPart {
  /** "proxy", "network", "app", "unexplained" or "parallel". */
  kind: string;
  name: string;
  service?: string;
  n: number;
  p50_s?: number;
  p99_s?: number;
  /** Where it begins in the waterfall. */
  start_s: number;
  at_median_s: number;
}

/** Another source's figures and claims beside ours. */
export interface Published {
  source: string;
  url: string;
  /** Of its figures, as a share. */
  tolerance: number;
  cells: PublishedCell[];
  claims: PublishedClaim[];
}

export interface PublishedCell {
  variant: string;
  load: string;
  /** Empty: none of ours. */
  metric: string;
  column: string;
  /** As it was published, e.g. "0.75 ms". */
  printed: string;
  /** Extremes of its rows, in the metric's unit. */
  lo: number;
  hi: number;
  ours?: Estimate;
  /** "covered", "same order", "opposite order", "not covered" or "not comparable". */
  agreement: string;
  detail: string;
}

export interface PublishedClaim {
  text: string;
  metric: string;
  load: string;
  left: string;
  relation: string;
  right: string;
  /** e.g. "by 20 % to 30 %"; empty: none is claimed. */
  size: string;
  /** left / right */
  ours?: Estimate;
  /** "supported", "not supported", "contradicted" or "cannot be told". */
  verdict: string;
  detail: string;
}

export interface Entry {
  key: string;
  value: string;
}

/** From internal/model: one doubt about a trial, a group of trials or a comparison. */
export interface Finding {
  rule: string;
  severity: string;
  variant?: string;
  load?: string;
  trials?: number[];
  /** What it is about, by name or group; none: all. */
  metrics?: string[];
  cause: string;
  evidence: string;
  advice: string;
}
