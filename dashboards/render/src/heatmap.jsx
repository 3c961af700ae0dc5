// Grafana's heatmap is in no npm package: this one is drawn on the same chart builder, axes and colours.
import { useMemo } from 'react';
import { FieldType, formattedValueToString, getValueFormat } from '@grafana/data';
import { UPlotChart, UPlotConfigBuilder, measureText } from '@grafana/ui';
import { interpolateOranges } from 'd3';

const LEGEND_HEIGHT = 28;
const LINE_HEIGHT = 14;

export function Heatmap({ frames, options, width, height, theme, timeZone, timeRange }) {
  const [frame] = frames;
  const time = frame.fields.find((field) => field.type === FieldType.time);
  const buckets = frame.fields.filter((field) => field.type === FieldType.number);
  const shown = buckets.flatMap((bucket) => bucket.values).filter((value) => value > options.filterValues.le);
  const most = Math.max(...shown);
  const least = Math.min(...shown);
  const { steps, exponent } = options.color;
  const colour = (value) => {
    const share = most > least ? (value - least) / (most - least) : 1;
    const step = Math.round(share ** exponent * (steps - 1)) / (steps - 1);
    return interpolateOranges(theme.isDark ? 1 - step : step); // on dark ground the many are bright
  };

  const config = useMemo(() => {
    const inUnit = getValueFormat(options.yAxis.unit);
    const edges = ['', ...buckets.map((bucket) => (bucket.name === '+Inf' ? bucket.name : formattedValueToString(inUnit(Number(bucket.name)))))];
    const every = Math.max(1, Math.ceil((edges.length * LINE_HEIGHT) / (height - LEGEND_HEIGHT - 34)));
    const builder = new UPlotConfigBuilder(timeZone);
    builder.addScale({ scaleKey: 'x', isTime: true, orientation: 0, direction: 1, range: () => [+timeRange.from, +timeRange.to] });
    builder.addScale({ scaleKey: 'y', isTime: false, orientation: 1, direction: 1, range: () => [0, buckets.length] });
    builder.addAxis({ scaleKey: 'x', isTime: true, placement: 'bottom', timeZone, theme, grid: { show: false } });
    builder.addAxis({
      scaleKey: 'y', placement: 'left', theme, grid: { show: false },
      size: Math.ceil(Math.max(...edges.map((edge) => measureText(edge, 12).width))) + 20,
      splits: () => edges.map((_, position) => position),
      values: () => edges.map((edge, position) => (position % every ? null : edge)),
    });
    builder.addSeries({ scaleKey: 'y', pathBuilder: () => null, pointsBuilder: () => null, show: true, theme, lineColor: 'transparent', drawStyle: 'line' });
    builder.addHook('drawClear', (plot) => {
      const { ctx, bbox } = plot;
      ctx.save();
      ctx.beginPath();
      ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
      ctx.clip();
      buckets.forEach((bucket, row) => {
        const [top, bottom] = [row + 1, row].map((edge) => plot.valToPos(edge, 'y', true));
        time.values.forEach((at, position) => {
          const value = bucket.values[position];
          if (!(value > options.filterValues.le)) return;
          const [left, right] = [at - time.config.interval, at].map((edge) => Math.round(plot.valToPos(edge, 'x', true)));
          ctx.fillStyle = colour(value);
          ctx.fillRect(left, Math.round(top), Math.max(1, right - left - options.cellGap), Math.max(1, bottom - top - options.cellGap));
        });
      });
      ctx.restore();
    });
    return builder;
  }, [frames, width, height]);

  const number = getValueFormat('short');
  const scale = Array.from({ length: steps }, (_, step) => colour(least + (most - least) * (step / (steps - 1)) ** (1 / exponent)));
  return (
    <div style={{ width, height, overflow: 'hidden' }}>
      <UPlotChart config={config} data={[time.values, time.values.map(() => null)]} width={width} height={height - LEGEND_HEIGHT} timeRange={timeRange} />
      <div style={{ width: Math.min(300, width * 0.6), paddingLeft: 40, fontSize: 10, lineHeight: '12px', color: theme.colors.text.secondary }}>
        <div style={{ height: 8, margin: '4px 0 2px', background: `linear-gradient(90deg, ${scale.join(', ')})` }} />
        <div style={{ display: 'flex', justifyContent: 'space-between' }}>
          {[least, most].map((end) => <span key={end}>{formattedValueToString(number(end))}</span>)}
        </div>
      </div>
    </div>
  );
}
