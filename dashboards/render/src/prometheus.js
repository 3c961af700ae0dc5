// Queries of a panel, and Prometheus' answers as Grafana's data frames.
import { FieldType, rangeUtil } from '@grafana/data';
import { filledIn } from './variables.js';

const FEWEST_SCRAPES = 4; // what Grafana takes for $__rate_interval

async function ask(path, parameters) {
  const answer = await fetch(`/prometheus/api/v1/${path}`, { method: 'POST', body: new URLSearchParams(parameters) });
  const said = await answer.json();
  if (said.status !== 'success') throw new Error(said.error);
  return said.data.result;
}

/** The frames of one target, and how many finite samples they have. */
export async function run(target, { range, width, scrapeMs, variables }) {
  const { intervalMs } = rangeUtil.calculateInterval({ from: range.from, to: range.to }, Math.max(Math.round(width), 1), `${scrapeMs}ms`);
  const rateMs = Math.max(intervalMs + scrapeMs, FEWEST_SCRAPES * scrapeMs);
  const expr = filledIn(target.expr, { ...variables, __interval: `${intervalMs}ms`, __rate_interval: `${rateMs}ms` });
  const rows = target.instant
    ? (await ask('query', { query: expr, time: range.to / 1000 })).map((row) => ({ ...row, values: [row.value] }))
    : await ask('query_range', { query: expr, start: aligned(range.from, intervalMs), end: aligned(range.to, intervalMs), step: intervalMs / 1000 });
  const frames = rows.map((row) => frameOf(row, target, intervalMs));
  const samples = frames.flatMap((frame) => frame.fields[1].values).filter(Number.isFinite).length;
  return { expr, samples, frames: shaped(frames, target) };
}

const aligned = (at, stepMs) => (Math.floor(at / stepMs) * stepMs) / 1000;
const numberOf = (text) => ({ '+Inf': Infinity, '-Inf': -Infinity })[text] ?? Number(text);

function frameOf({ metric, values }, target, intervalMs) {
  const named = target.legendFormat !== '__auto' ? target.legendFormat.replace(/\{\{\s*(\w+)\s*\}\}/g, (_, label) => metric[label] ?? '') : undefined;
  return {
    refId: target.refId,
    length: values.length,
    fields: [
      { name: 'Time', type: FieldType.time, config: { interval: intervalMs }, values: values.map(([at]) => at * 1000) },
      { name: 'Value', type: FieldType.number, labels: metric, config: { displayNameFromDS: named }, values: values.map(([, value]) => numberOf(value)) },
    ],
  };
}

function shaped(frames, target) {
  if (!frames.length) return [];
  return { table: asTable, heatmap: asBuckets }[target.format]?.(frames, target) ?? frames;
}

/** One frame with a column per label and one of values, named after the target; @grafana/data merges those of several. */
function asTable(frames, { refId, alone }) {
  const rows = frames.map((frame) => ({ labels: frame.fields[1].labels, at: frame.fields[0].values[0], value: frame.fields[1].values[0] }));
  const labels = [...new Set(rows.flatMap((row) => Object.keys(row.labels)))].sort();
  return [{
    refId,
    length: rows.length,
    fields: [
      { name: 'Time', type: FieldType.time, config: {}, values: rows.map((row) => row.at) },
      ...labels.map((label) => ({ name: label, type: FieldType.string, config: {}, values: rows.map((row) => row.labels[label] ?? '') })),
      { name: alone ? 'Value' : `Value #${refId}`, type: FieldType.number, config: {}, values: rows.map((row) => row.value) },
    ],
  }];
}

/** One frame with a field per bucket, in order, no longer cumulative. */
function asBuckets(frames, { refId }) {
  const bound = (frame) => numberOf(frame.fields[1].labels.le);
  const sorted = [...frames].sort((one, other) => bound(one) - bound(other));
  const times = [...new Set(sorted.flatMap((frame) => frame.fields[0].values))].sort((one, other) => one - other);
  let below = times.map(() => 0);
  const fields = sorted.map((frame) => {
    const at = new Map(frame.fields[0].values.map((time, position) => [time, frame.fields[1].values[position]]));
    const upTo = times.map((time, position) => at.get(time) ?? below[position]);
    const values = upTo.map((value, position) => Math.max(0, value - below[position]));
    below = upTo;
    return { ...frame.fields[1], name: frame.fields[1].labels.le, values };
  });
  return [{ refId, length: times.length, fields: [{ ...sorted[0].fields[0], values: times }, ...fields] }];
}
