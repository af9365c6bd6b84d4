"""All areas of the API, in the order of the document."""

from typing import Final

from heliograph.management.api import actions as actions
from heliograph.management.api import alarms as alarms
from heliograph.management.api import api_keys as api_keys
from heliograph.management.api import audit as audit
from heliograph.management.api import authentication as authentication
from heliograph.management.api import authenticator_users as authenticator_users
from heliograph.management.api import authorization as authorization
from heliograph.management.api import backups as backups
from heliograph.management.api import banned as banned
from heliograph.management.api import built_in_rules as built_in_rules
from heliograph.management.api import charts as charts
from heliograph.management.api import client_lists as client_lists
from heliograph.management.api import client_messages as client_messages
from heliograph.management.api import client_plans as client_plans
from heliograph.management.api import clients as clients
from heliograph.management.api import cluster as cluster
from heliograph.management.api import configs as configs
from heliograph.management.api import configuration as configuration
from heliograph.management.api import connectors as connectors
from heliograph.management.api import data as data
from heliograph.management.api import delayed as delayed
from heliograph.management.api import diagnosis as diagnosis
from heliograph.management.api import durable_storage as durable_storage
from heliograph.management.api import explained_access as explained_access
from heliograph.management.api import extensions as extensions
from heliograph.management.api import gateways as gateways
from heliograph.management.api import listeners as listeners
from heliograph.management.api import live as live
from heliograph.management.api import live_trace as live_trace
from heliograph.management.api import login as login
from heliograph.management.api import message_replays as message_replays
from heliograph.management.api import message_tail as message_tail
from heliograph.management.api import message_transformations as message_transformations
from heliograph.management.api import message_ways as message_ways
from heliograph.management.api import metrics as metrics
from heliograph.management.api import monitor as monitor
from heliograph.management.api import mqtt_features as mqtt_features
from heliograph.management.api import nodes as nodes
from heliograph.management.api import opentelemetry as opentelemetry
from heliograph.management.api import pipeline as pipeline
from heliograph.management.api import prometheus as prometheus
from heliograph.management.api import publish as publish
from heliograph.management.api import rebalance as rebalance
from heliograph.management.api import retainer as retainer
from heliograph.management.api import rule_engine as rule_engine
from heliograph.management.api import rule_language as rule_language
from heliograph.management.api import rule_replays as rule_replays
from heliograph.management.api import rules as rules
from heliograph.management.api import schema_validations as schema_validations
from heliograph.management.api import schemas as schemas
from heliograph.management.api import second_factor as second_factor
from heliograph.management.api import slow_subscriptions as slow_subscriptions
from heliograph.management.api import sources as sources
from heliograph.management.api import sso as sso
from heliograph.management.api import status as status
from heliograph.management.api import stored_messages as stored_messages
from heliograph.management.api import subscriptions as subscriptions
from heliograph.management.api import telemetry as telemetry
from heliograph.management.api import topic_metrics as topic_metrics
from heliograph.management.api import topic_tree as topic_tree
from heliograph.management.api import topics as topics
from heliograph.management.api import traces as traces
from heliograph.management.api import users as users
from heliograph.management.web.area import Area

AREAS: Final[list[Area]] = [
    status.area,
    nodes.area,
    cluster.area,
    rebalance.area,
    clients.area,
    client_lists.area,
    client_plans.area,
    authentication.area,
    authenticator_users.area,
    authorization.area,
    built_in_rules.area,
    client_messages.area,
    subscriptions.area,
    topics.area,
    topic_tree.area,
    message_tail.area,
    publish.area,
    banned.area,
    retainer.area,
    delayed.area,
    mqtt_features.area,
    listeners.area,
    configs.area,
    data.area,
    backups.area,
    rules.area,
    rule_language.area,
    rule_engine.area,
    rule_replays.area,
    schemas.area,
    schema_validations.area,
    message_transformations.area,
    alarms.area,
    login.area,
    users.area,
    second_factor.area,
    sso.area,
    api_keys.area,
    traces.area,
    live_trace.area,
    audit.area,
    connectors.area,
    actions.area,
    sources.area,
    durable_storage.area,
    stored_messages.area,
    message_replays.area,
    message_ways.area,
    metrics.area,
    monitor.area,
    charts.area,
    diagnosis.area,
    live.area,
    prometheus.area,
    slow_subscriptions.area,
    topic_metrics.area,
    telemetry.area,
    configuration.area,
    explained_access.area,
    opentelemetry.area,
    pipeline.area,
    gateways.area,
    extensions.area,
]
