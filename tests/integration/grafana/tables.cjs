// Print what Grafana shows in a table panel: its own transformations and formats, applied to Prometheus' answers.
// Standard input: {"panel": the panel's JSON, "answers": {refId: Prometheus' series}, "time": milliseconds}.
// Standard output: {"columns": [...], "rows": [[text, ...], ...]}.
const {
  applyFieldOverrides, createTheme, FieldConfigOptionsRegistry, FieldType, formattedValueToString, getFieldDisplayName,
  identityOverrideProcessor, sortDataFrame, standardTransformers, standardTransformersRegistry, toDataFrame, transformDataFrame,
} = require('@grafana/data');
const { lastValueFrom } = require('rxjs');

// What the library looks into of a browser; not before all is loaded, for React would take this for one.
globalThis.window = globalThis;
globalThis.navigator ??= { language: 'en-US', languages: ['en-US'] };

const used = [standardTransformers.mergeTransformer, standardTransformers.organizeFieldsTransformer,
  standardTransformers.orderFieldsTransformer, standardTransformers.renameFieldsTransformer, standardTransformers.filterFieldsByNameTransformer,
  standardTransformers.filterFieldsTransformer];
standardTransformersRegistry.setInit(() => used.map((one) => ({ id: one.id, name: one.name, transformation: async () => one })));

// As @grafana/prometheus makes a table of an instant query's series.
function frame(refId, series, time, isLone) {
  const names = [...new Set(series.flatMap((each) => Object.keys(each.metric)))].sort();
  return toDataFrame({
    refId,
    fields: [
      { name: 'Time', type: FieldType.time, values: series.map(() => time) },
      ...names.map((name) => ({ name, type: FieldType.string, values: series.map((each) => each.metric[name] ?? '') })),
      { name: isLone ? 'Value' : `Value #${refId}`, type: FieldType.number, values: series.map((each) => Number(each.value[1])) },
    ],
  });
}

function registry() {
  const made = new FieldConfigOptionsRegistry();
  const plain = ['unit', 'decimals', 'mappings', 'links', 'displayName', 'noValue', 'min', 'max', 'color', 'thresholds'];
  for (const path of plain) {
    made.register({ id: path, path, name: path, process: identityOverrideProcessor, shouldApply: () => true, isCustom: false });
  }
  for (const path of ['cellOptions', 'align', 'width', 'filterable']) {
    made.register({ id: `custom.${path}`, path, name: path, process: identityOverrideProcessor, shouldApply: () => true, isCustom: true });
  }
  return made;
}

async function main() {
  const asked = JSON.parse(require('fs').readFileSync(0, 'utf8'));
  const refIds = Object.keys(asked.answers);
  const frames = refIds.map((refId) => frame(refId, asked.answers[refId], asked.time, refIds.length === 1));
  const data = await lastValueFrom(transformDataFrame(asked.panel.transformations ?? [], frames));
  const [shown] = applyFieldOverrides({
    data, fieldConfig: asked.panel.fieldConfig, replaceVariables: (text) => text, theme: createTheme(), timeZone: 'utc',
    fieldConfigRegistry: registry(),
  });
  const columns = shown.fields.map((field) => getFieldDisplayName(field, shown, data));
  const [sorted] = asked.panel.options?.sortBy ?? [];
  const at = sorted ? columns.indexOf(sorted.displayName) : -1;
  const ordered = at < 0 ? shown : sortDataFrame(shown, at, sorted.desc);
  const rows = Array.from({ length: ordered.length }, (_, row) =>
    ordered.fields.map((field) => (field.values[row] === undefined ? null : formattedValueToString(field.display(field.values[row])))));
  process.stdout.write(JSON.stringify({ frames: data.length, columns, rows }));
}

main();
