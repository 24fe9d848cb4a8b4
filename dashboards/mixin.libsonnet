// The dashboards and rules as a monitoring mixin: https://monitoring.mixins.dev.
//
//   local mirror = (import 'dashboards/mixin.libsonnet') + { _config+:: { selector: 'job="mirror-eu"' } };
//   mirror.prometheusAlerts, mirror.prometheusRules, mirror.grafanaDashboards
{
  _config+:: {
    // Selects the mirror's processes in Prometheus, for series without the mirror's prefix (up, process_*).
    selector: 'job="kafka-mirror"',
    // Time lag of a topic, in seconds, above which alerts fire.
    rpo_warning_s: 300,
    rpo_critical_s: 1800,
    // Targets of links in alerts and dashboards; without an inspector, alerts have no link to it.
    runbook: 'docs/runbook.md',
    grafana: 'http://localhost:3000',
    inspector: '',
  },

  local config = self._config,
  local quoted(value) = std.escapeStringJson(std.toString(value)),
  local inside(value) = std.substr(quoted(value), 1, std.length(quoted(value)) - 2),
  local filled(text, name) = std.strReplace(text, '@' + name + '@', inside(config[name])),
  local groups = std.parseJson(
    std.foldl(filled, std.objectFields(config), importstr 'chart/generated/kafka-mirror.rules.template')
  ).groups,
  local linked(rule) = if config.inspector != '' || !std.objectHas(rule, 'annotations') then rule else rule {
    annotations: std.prune(rule.annotations { inspector_url: null }),
  },
  local named(kind) = [
    group { rules: [linked(rule) for rule in group.rules] }
    for group in groups
    if group.name == 'kafka-mirror-' + kind
  ],
  local board(text) = std.parseJson(std.strReplace(
    std.strReplace(text, '"docs/runbook.md"', quoted(config.runbook)),
    '"http://localhost:8501"',
    quoted(if config.inspector == '' then 'http://localhost:8501' else config.inspector)
  )),

  prometheusAlerts+:: { groups+: named('alerts') },
  prometheusRules+:: { groups+: named('recording') },
  grafanaDashboards+:: {
    'kafka-mirror-engine.json': board(importstr 'chart/generated/kafka-mirror-engine.json'),
    'kafka-mirror-failover.json': board(importstr 'chart/generated/kafka-mirror-failover.json'),
    'kafka-mirror-mm2.json': board(importstr 'chart/generated/kafka-mirror-mm2.json'),
    'kafka-mirror-overview.json': board(importstr 'chart/generated/kafka-mirror-overview.json'),
    'kafka-mirror-slo.json': board(importstr 'chart/generated/kafka-mirror-slo.json'),
    'kafka-mirror-topic.json': board(importstr 'chart/generated/kafka-mirror-topic.json'),
  },
}
