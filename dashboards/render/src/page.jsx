// The page that draw.mjs opens: one dashboard, drawn once, with a report of what it found at window.report.
import { Component, useEffect, useMemo, useState } from 'react';
import { createRoot } from 'react-dom/client';
import { firstValueFrom } from 'rxjs';
import { EventBusSrv, ThemeContext, applyFieldOverrides, createTheme, dateTime, toDataFrame, transformDataFrame } from '@grafana/data';
import { GlobalStyles, Icon, PanelChrome, PanelContextProvider } from '@grafana/ui';
import { configured, registryOf } from './field_config.js';
import { Heatmap } from './heatmap.jsx';
import { drawnIn, overlapping, unreadable, watchCanvasText } from './inspect.js';
import { Lines, Rows, Stat } from './panels.jsx';
import { run } from './prometheus.js';
import { variablesOf } from './variables.js';
import './page.css';

const PANELS = { timeseries: Lines, stat: Stat, table: Rows, heatmap: Heatmap };
const COLUMNS = 24;
const ROW_PIXELS = 30;
const GAP = 8;
const MARGIN = 16;
const TIME_ZONE = 'utc';

const job = await (await fetch(`/jobs/${window.location.hash.slice(1)}`)).json();
const { dashboard } = job;
const theme = createTheme({ colors: { mode: job.theme } });
const range = { from: job.from, to: job.to };
const timeRange = { from: dateTime(range.from), to: dateTime(range.to), raw: { from: dateTime(range.from), to: dateTime(range.to) } };
const context = { eventsScope: 'global', eventBus: new EventBusSrv(), sync: () => 0 };

async function loaded(panel, width, variables, entry) {
  const { options, fieldConfig } = configured(panel);
  const alone = panel.targets.length === 1;
  const answers = await Promise.all(panel.targets.map((target) => run({ ...target, alone }, { range, width, scrapeMs: job.scrapeMs, variables })));
  entry.queries = answers.map(({ expr, samples }) => ({ expr, samples }));
  let frames = answers.flatMap((answer) => answer.frames).map(toDataFrame);
  if (panel.transformations?.length) frames = await firstValueFrom(transformDataFrame(panel.transformations, frames, { interpolate: (text) => text }));
  const data = applyFieldOverrides({
    data: frames, fieldConfig, replaceVariables: (text) => text, theme, timeZone: TIME_ZONE, fieldConfigRegistry: registryOf(fieldConfig),
  });
  return { frames: data, options, fieldConfig };
}

/** An error while drawing one panel is that panel's fault. */
class Guard extends Component {
  state = {};
  static getDerivedStateFromError(error) { return { error }; }
  componentDidCatch(error) { this.props.entry.faults.push(String(error.message ?? error)); }
  render() { return this.state.error ? <p>{this.state.error.message}</p> : this.props.children; }
}

function Panel({ panel, variables, entry, width, height, done }) {
  const [found, setFound] = useState(null);
  useEffect(() => {
    loaded(panel, width, variables, entry).then(setFound, (error) => { entry.faults.push(error.message); done(); });
  }, []);
  // Legends are measured in a second frame; icons and the like come a moment later.
  useEffect(() => { if (found) requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 100))); }, [found]);
  const Draw = PANELS[panel.type];
  return (
    <PanelChrome width={width} height={height} title={panel.title} description={() => panel.description} padding={panel.type === 'stat' ? 'none' : 'md'}>
      {(wide, high) => {
        if (!found) return null;
        if (!found.frames.some((frame) => frame.length)) return <p className="no-data">No data</p>;
        return <Guard entry={entry}><Draw {...found} width={wide} height={high} theme={theme} timeRange={timeRange} timeZone={TIME_ZONE} /></Guard>;
      }}
    </PanelChrome>
  );
}

const RowTitle = ({ title }) => <div className="row" style={{ color: theme.colors.text.primary }}><Icon name="angle-down" /> {title}</div>;

function Dashboard({ entries, variables, done }) {
  const column = (job.width - 2 * MARGIN - GAP * (COLUMNS - 1)) / COLUMNS;
  const placed = ({ x, y, w, h }) => ({ left: x * (column + GAP), top: y * (ROW_PIXELS + GAP), width: w * (column + GAP) - GAP, height: h * (ROW_PIXELS + GAP) - GAP });
  const boxes = useMemo(() => dashboard.panels.map((panel) => placed(panel.gridPos)), []);
  const bottom = Math.max(...boxes.map((box) => box.top + box.height));
  return (
    <div style={{ padding: MARGIN, width: job.width, background: theme.colors.background.canvas }}>
      <h1>{dashboard.title}</h1>
      <main style={{ height: bottom }}>
        {dashboard.panels.map((panel, position) => (
          <section key={panel.id} data-panel={panel.id} style={boxes[position]}>
            {panel.type === 'row' ? <RowTitle title={panel.title} /> : (
              <Panel panel={panel} variables={variables} entry={entries[position]} {...boxes[position]} done={() => done(panel.id)} />
            )}
          </section>
        ))}
      </main>
    </div>
  );
}

async function draw() {
  const variables = variablesOf(dashboard, range);
  const entries = dashboard.panels.map(({ id, title, type }) => ({ id, title, type, queries: [], faults: [] }));
  const waiting = new Set(entries.filter(({ type }) => type !== 'row').map(({ id }) => id));
  document.body.style.background = theme.colors.background.canvas;
  await new Promise((resolve) => {
    const done = (id) => { waiting.delete(id); if (!waiting.size) resolve(); };
    createRoot(document.getElementById('root')).render(
      <ThemeContext.Provider value={theme}>
        <GlobalStyles />
        <PanelContextProvider value={context}><Dashboard entries={entries} variables={variables} done={done} /></PanelContextProvider>
      </ThemeContext.Provider>,
    );
  });
  await new Promise((resolve) => setTimeout(resolve, 500));
  for (const entry of entries) {
    const section = document.querySelector(`section[data-panel="${entry.id}"]`);
    entry.top = Math.round(section.getBoundingClientRect().top + window.scrollY);
    if (entry.type === 'row') continue;
    if (!entry.queries.some(({ samples }) => samples)) entry.faults.push('no data');
    else if (!drawnIn(section)) entry.faults.push('nothing was drawn');
    entry.faults.push(...unreadable(section, { withAxes: entry.type !== 'stat' }));
  }
  return { uid: dashboard.uid, theme: job.theme, panels: entries, faults: overlapping([...document.querySelectorAll('section[data-panel]')]) };
}

watchCanvasText();
await Promise.all(['400 14px Inter', '500 14px Inter'].map((font) => document.fonts.load(font))); // texts are measured on canvas
draw().then((report) => { window.report = report; }, (error) => { window.report = { fatal: String(error.stack ?? error) }; });
