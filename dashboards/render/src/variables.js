// Variables as Grafana fills them in: the dashboards' own (all of them multi-value, set to All) and the built-in ones.

/** Names and values for one drawing of a dashboard. Throws on a variable that is not of a kind the generator writes. */
export function variablesOf(dashboard, range) {
  const values = { __range: `${Math.round((range.to - range.from) / 1000)}s` };
  for (const variable of dashboard.templating.list) {
    if (variable.type === 'datasource') continue; // there is one Prometheus
    if (variable.type !== 'query' || !variable.allValue) throw new Error(`variable ${variable.name}: not a query with a value for All`);
    values[variable.name] = variable.allValue;
  }
  return values;
}

/** Fill them in; `$name` and `${name}` ($1 is a regular expression's). Throws on one that nobody sets. */
export function filledIn(text, values) {
  return text.replace(/\$(?:([a-z_]\w*)|\{([a-z_]\w*)\})/gi, (all, plain, braced) => {
    const value = values[plain ?? braced];
    if (value === undefined) throw new Error(`nothing sets the variable ${all}`);
    return value;
  });
}
