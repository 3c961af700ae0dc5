// The panels that @grafana/ui has components for, given what Grafana's own panel plugins give them.
import { FieldType, getDisplayProcessor, getDisplayValueAlignmentFactors, getFieldDisplayValues } from '@grafana/data';
import { BigValue, Table, TimeSeries, VizRepeater } from '@grafana/ui';

const asItIs = (text) => text;

export function Lines({ frames, options, width, height, timeRange, timeZone }) {
  return <TimeSeries frames={frames} structureRev={1} timeRange={timeRange} timeZone={timeZone} width={width} height={height} legend={options.legend} options={options} />;
}

// A share runs from 0 to 1 unless it says otherwise: its course in the background must not fill the panel with noise.
function withRangeOfShares(frames, theme) {
  for (const field of frames.flatMap((frame) => frame.fields).filter((each) => each.config.unit === 'percentunit')) {
    field.state = { ...field.state, range: { min: 0, max: 1, delta: 1 } };
    field.display = getDisplayProcessor({ field, theme });
  }
  return frames;
}

export function Stat({ frames, options, fieldConfig, width, height, theme, timeRange, timeZone }) {
  const values = () => getFieldDisplayValues({
    fieldConfig, theme, timeZone, data: withRangeOfShares(frames, theme), reduceOptions: options.reduceOptions,
    replaceVariables: asItIs, sparkline: options.graphMode !== 'none',
  });
  const draw = ({ value, alignmentFactors, width: wide, height: high, count, orientation }) => {
    if (value.sparkline) value.sparkline.timeRange = timeRange;
    return (
      <BigValue value={value.display} count={count} sparkline={value.sparkline} colorMode={options.colorMode} graphMode={options.graphMode}
        justifyMode={options.justifyMode} textMode={options.textMode} alignmentFactors={alignmentFactors} parentOrientation={orientation}
        width={wide} height={high} theme={theme} wideLayout={options.wideLayout} />
    );
  };
  return (
    <VizRepeater getValues={values} getAlignmentFactors={getDisplayValueAlignmentFactors} renderValue={draw} width={width} height={height}
      source={frames} itemSpacing={3} renderCounter={0} autoGrid orientation={options.orientation} />
  );
}

export function Rows({ frames, options, fieldConfig, width, height, timeRange }) {
  if (frames.length !== 1) throw new Error(`a table of ${frames.length} frames`);
  const shown = frames[0].fields.filter((field) => field.type !== FieldType.time);
  if (!shown.length) throw new Error('a table without columns');
  return (
    <Table data={frames[0]} width={width} height={height} noHeader={!options.showHeader} resizable initialSortBy={options.sortBy}
      cellHeight={options.cellHeight} timeRange={timeRange} fieldConfig={fieldConfig} replaceVariables={asItIs} getActions={() => []} />
  );
}
