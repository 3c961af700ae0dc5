// What Grafana's application registers and its npm packages leave empty: the field properties, the transformations, and
// the defaults of each kind of panel.
import {
  FieldConfigOptionsRegistry, FieldType, displayNameOverrideProcessor, identityOverrideProcessor, numberOverrideProcessor,
  standardTransformers, standardTransformersRegistry, stringOverrideProcessor, thresholdsOverrideProcessor, unitOverrideProcessor,
} from '@grafana/data';

const TRANSFORMATIONS = new Map(Object.values(standardTransformers).map((each) => [each.id, each])); // some are exported twice
standardTransformersRegistry.setInit(() => [...TRANSFORMATIONS].map(([id, transformation]) => ({ id, name: transformation.name, transformation })));

const always = () => true;
const ofNumbers = (field) => field.type === FieldType.number;
const PROPERTIES = [
  ['displayName', displayNameOverrideProcessor, always],
  ['unit', unitOverrideProcessor, always],
  ['min', numberOverrideProcessor, ofNumbers],
  ['max', numberOverrideProcessor, ofNumbers],
  ['decimals', numberOverrideProcessor, ofNumbers],
  ['thresholds', thresholdsOverrideProcessor, always],
  ['color', identityOverrideProcessor, always],
  ['noValue', stringOverrideProcessor, always],
];
const property = (id, path, process, shouldApply, isCustom) => ({ id, path, name: id, process, shouldApply, isCustom });

const LEGEND = { showLegend: true, displayMode: 'list', placement: 'bottom', calcs: [] };
const LINES = {
  drawStyle: 'line', lineInterpolation: 'linear', barAlignment: 0, barWidthFactor: 0.6, lineWidth: 1, fillOpacity: 0, gradientMode: 'none',
  spanNulls: false, insertNulls: false, showPoints: 'auto', pointSize: 5, stacking: { mode: 'none', group: 'A' }, axisPlacement: 'auto',
  axisLabel: '', axisColorMode: 'text', axisBorderShow: false, axisCenteredZero: false, scaleDistribution: { type: 'linear' },
  hideFrom: { tooltip: false, viz: false, legend: false }, thresholdsStyle: { mode: 'off' },
};
const KINDS = {
  timeseries: { options: { legend: LEGEND }, defaults: { color: { mode: 'palette-classic' }, custom: LINES } },
  stat: { options: { textMode: 'auto', justifyMode: 'auto', orientation: 'auto', wideLayout: true }, defaults: {} },
  table: { options: { showHeader: true, cellHeight: 'sm' }, defaults: { color: { mode: 'thresholds' }, custom: { align: 'auto', cellOptions: { type: 'auto' } } } },
  heatmap: { options: {}, defaults: {} },
};

const isObject = (value) => value !== null && typeof value === 'object' && !Array.isArray(value);
function merged(base, over) {
  if (!isObject(base) || !isObject(over)) return over ?? base;
  const found = { ...base };
  for (const [key, value] of Object.entries(over)) found[key] = merged(base[key], value);
  return found;
}

// JSON has no infinity: the lowest step of thresholds is null there.
const fromNull = (thresholds) => thresholds && { ...thresholds, steps: thresholds.steps.map((step) => ({ ...step, value: step.value ?? -Infinity })) };

/** Options and field configuration of a panel, over the defaults of its kind. Throws on a kind that is not known. */
export function configured(panel) {
  const kind = KINDS[panel.type];
  if (!kind) throw new Error(`cannot draw a panel of type ${panel.type}`);
  const own = panel.fieldConfig ?? {};
  const defaults = merged(kind.defaults, own.defaults ?? {});
  defaults.thresholds = fromNull(defaults.thresholds);
  const overrides = (own.overrides ?? []).map((override) => ({
    ...override,
    properties: override.properties.map((each) => (each.id === 'thresholds' ? { ...each, value: fromNull(each.value) } : each)),
  }));
  return { options: merged(kind.options, panel.options ?? {}), fieldConfig: { defaults, overrides } };
}

/** The registry that Grafana's override code asks. Throws on an override of a property that it would pass over. */
export function registryOf(fieldConfig) {
  const custom = new Set(Object.keys(fieldConfig.defaults.custom ?? {}));
  for (const { id } of fieldConfig.overrides.flatMap((override) => override.properties)) {
    if (id.startsWith('custom.')) custom.add(id.slice('custom.'.length));
    else if (!PROPERTIES.some(([known]) => known === id)) throw new Error(`override of an unknown property: ${id}`);
  }
  return new FieldConfigOptionsRegistry(() => [
    ...PROPERTIES.map(([id, process, applies]) => property(id, id, process, applies, false)),
    ...[...custom].map((path) => property(`custom.${path}`, path, identityOverrideProcessor, always, true)),
  ]);
}
