#!/usr/bin/env node
// Draws dashboards as PNG with Grafana's own libraries, from a real Prometheus, in headless Chromium. See --help.
import { createServer, request } from 'node:http';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { extname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { chromium } from 'playwright-core';

const HELP = `node draw.mjs --prometheus URL --out DIR [--seconds 300] [--scrape-seconds 15] [--theme dark]... [--width 1600]
  [--chromium PATH] DASHBOARD.json...

Writes DIR/UID-THEME.png, and DIR/report.json: for each dashboard and theme its panels with their queries, samples and
faults. Run \`npm ci\` and \`npm run build\` before.
Exit: 0 every panel drew, with data, nothing cut off or over something else; 1 it did not; 2 nothing could be drawn.`;
const START_MS = 60_000;
const TYPES = { '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml', '.woff2': 'font/woff2' };
const PAGE = '<!doctype html><meta charset="utf-8"><link rel="stylesheet" href="/dist/page.css"><link rel="icon" href="data:,">'
  + '<script>window.__grafana_public_path__="/public/"</script><div id="root"></div><script type="module" src="/dist/page.js"></script>';
const here = fileURLToPath(new URL('.', import.meta.url));

/** The page, what it needs, its jobs by number, and a way to Prometheus. */
function serve(prometheus, jobs) {
  const server = createServer((asked, answer) => {
    const path = normalize(decodeURIComponent(new URL(asked.url, 'http://here').pathname));
    const send = (body, type) => { answer.writeHead(200, { 'content-type': type, 'cache-control': 'max-age=3600' }); answer.end(body); };
    if (path.startsWith('/prometheus/')) {
      const target = new URL(prometheus.replace(/\/$/, '') + asked.url.slice('/prometheus'.length));
      const passed = request(target, { method: asked.method, headers: { 'content-type': asked.headers['content-type'] } }, (said) => {
        answer.writeHead(said.statusCode, { 'content-type': 'application/json' });
        said.pipe(answer);
      });
      passed.on('error', (error) => { send(JSON.stringify({ status: 'error', error: `${prometheus}: ${error.message}` }), 'application/json'); });
      asked.pipe(passed);
      return;
    }
    if (path === '/') { send(PAGE, 'text/html'); return; }
    if (path.startsWith('/jobs/')) { send(JSON.stringify(jobs[path.slice('/jobs/'.length)]), 'application/json'); return; }
    const file = path.startsWith('/dist/') ? join(here, path) : join(here, 'dist', path);
    if (existsSync(file) && TYPES[extname(file)]) { send(readFileSync(file), TYPES[extname(file)]); return; }
    answer.writeHead(404);
    answer.end();
  });
  return new Promise((resolve) => { server.listen(0, '127.0.0.1', () => resolve(server)); });
}

async function drawOne(context, url, job) {
  const page = await context.newPage();
  const errors = [];
  page.on('pageerror', (error) => errors.push(String(error)));
  try {
    await page.goto(url);
    await page.waitForFunction('window.report !== undefined', null, { timeout: START_MS })
      .catch(() => { throw new Error(`${job.dashboard.uid} was not drawn in ${START_MS / 1000} s. ${errors.join('; ')}`); });
    await page.waitForLoadState('networkidle');
    const report = await page.evaluate('window.report');
    if (report.fatal) throw new Error(report.fatal);
    // Grafana ties the page to the height of the window, so the window gets that of the page.
    const height = await page.evaluate('Math.ceil(document.getElementById("root").getBoundingClientRect().height)');
    await page.setViewportSize({ width: job.width, height });
    await page.waitForTimeout(300);
    await page.screenshot({ path: job.image });
    report.faults.push(...errors);
    return { ...report, image: job.image, height };
  } finally {
    await page.close();
  }
}

async function main() {
  const { values: options, positionals: files } = parseArgs({
    allowPositionals: true,
    options: {
      prometheus: { type: 'string' }, out: { type: 'string' }, seconds: { type: 'string', default: '300' }, 'scrape-seconds': { type: 'string', default: '15' },
      theme: { type: 'string', multiple: true, default: ['dark'] }, width: { type: 'string', default: '1600' },
      chromium: { type: 'string', default: '/usr/bin/chromium' }, help: { type: 'boolean', default: false },
    },
  });
  if (options.help) { console.log(HELP); return 0; }
  if (!options.prometheus || !options.out || !files.length) throw new Error(HELP);
  if (!existsSync(join(here, 'dist/page.js'))) throw new Error(`not built yet: npm ci --prefix ${here} --ignore-scripts && npm run build --prefix ${here}`);
  mkdirSync(options.out, { recursive: true });
  const to = Date.now();
  const width = Number(options.width);
  const about = { to, from: to - Number(options.seconds) * 1000, width, scrapeMs: Number(options['scrape-seconds']) * 1000 };
  const dashboards = files.map((file) => JSON.parse(readFileSync(file, 'utf8')));
  const jobs = dashboards.flatMap((dashboard) => options.theme.map((theme) => ({ ...about, dashboard, theme, image: join(options.out, `${dashboard.uid}-${theme}.png`) })));
  const server = await serve(options.prometheus, jobs);
  const browser = await chromium.launch({ executablePath: options.chromium, args: ['--no-sandbox', '--disable-gpu', '--font-render-hinting=none'] });
  const reports = [];
  try {
    const context = await browser.newContext({ viewport: { width, height: 1000 }, timezoneId: 'UTC', locale: 'en-GB' });
    for (const [number, job] of jobs.entries()) reports.push(await drawOne(context, `http://127.0.0.1:${server.address().port}/#${number}`, job));
  } finally {
    await browser.close();
    server.close();
    server.closeAllConnections();
  }
  writeFileSync(join(options.out, 'report.json'), JSON.stringify(reports, null, 1));
  let sound = true;
  for (const { uid, theme, panels, faults } of reports) {
    const found = [...faults, ...panels.flatMap((panel) => panel.faults.map((fault) => `${panel.title}: ${fault}`))];
    sound &&= !found.length;
    console.log(`${uid} ${theme}: ${panels.filter((panel) => panel.type !== 'row').length} panels, ${found.length} faults`);
    for (const fault of found) console.log(`  ${fault}`);
  }
  return sound ? 0 : 1;
}

main().then((code) => { process.exitCode = code; }, (error) => { console.error(error.message); process.exitCode = 2; });
