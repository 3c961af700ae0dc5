// Bundles the page (src/page.jsx with @grafana/data, @grafana/ui and fonts) into dist/, Grafana's icons beside it.
import { build } from 'esbuild';
import { cpSync, readFileSync, rmSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const here = (path) => fileURLToPath(new URL(path, import.meta.url));

// Grafana's modules import CommonJS packages as `import x from` and mean exports.default; for a .mjs file esbuild gives
// the whole of module.exports, as Node does. Take .default wherever the package says that it was an ES module.
const defaults = {
  name: 'defaults-of-commonjs',
  setup(builder) {
    builder.onLoad({ filter: /@grafana\/(ui|data|schema)\/dist\/esm\/.*\.mjs$/ }, ({ path }) => {
      const taken = [];
      const contents = readFileSync(path, 'utf8').replace(
        /^import (\w+)((?:, \{[^}]*\})? from '[^.'][^']*';)$/gm,
        (_, name, rest) => {
          taken.push(`const ${name} = ${name}$m?.__esModule && ${name}$m.default !== undefined ? ${name}$m.default : ${name}$m;`);
          return `import ${name}$m${rest}`;
        },
      );
      return { contents: `${taken.join(' ')}\n${contents}`, loader: 'js' };
    });
  },
};

// 80 MB of a code editor that no panel shows.
const noEditor = {
  name: 'no-editor',
  setup(builder) {
    builder.onResolve({ filter: /^(monaco-editor|@monaco-editor\/react)/ }, ({ path }) => ({ path, namespace: 'empty' }));
    builder.onLoad({ filter: /.*/, namespace: 'empty' }, () => ({ contents: 'module.exports = {};' }));
  },
};

rmSync(here('dist'), { recursive: true, force: true });
await build({
  absWorkingDir: here('.'),
  entryPoints: { page: 'src/page.jsx' },
  outdir: 'dist',
  bundle: true,
  format: 'esm',
  splitting: true,
  minify: true,
  jsx: 'automatic',
  target: 'es2022',
  define: { 'process.env.NODE_ENV': '"production"', global: 'globalThis' },
  loader: { '.svg': 'dataurl', '.woff': 'file', '.woff2': 'file', '.ttf': 'file', '.png': 'dataurl' },
  logLevel: 'warning',
  plugins: [defaults, noEditor],
});

cpSync(here('node_modules/@grafana/ui/dist/public'), here('dist/public'), { recursive: true });
