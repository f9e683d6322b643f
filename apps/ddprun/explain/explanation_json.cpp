// The JSON of explanation.hpp.
#include <boost/json.hpp>

#include "apps/ddprun/explain/explanation.hpp"
#include "apps/ddprun/explain/worker_environment.hpp"
#include "launcher/cluster/cluster_text.hpp"
#include "launcher/harmless_text.hpp"

namespace ddprun::inline app {
namespace {

namespace json = boost::json;

json::array texts_json(const std::vector<std::string>& texts) {
    json::array array;
    for (const std::string& text : texts) array.emplace_back(valid_utf8(text));
    return array;
}

// Null for what is empty.
json::value text_or_null(const std::string& text) {
    return text.empty() ? json::value(nullptr) : json::value(valid_utf8(text));
}

json::object claim_json(const Claim& claim) {
    return {{"value", valid_utf8(claim.value)},
            {"source", valid_utf8(claim.source)},
            {"belief", belief_text(claim.belief)}};
}

json::object fact_json(Fact fact, const DerivedFact& derived) {
    json::object object{{"name", fact_name(fact)}};
    if (derived.chosen) {
        for (const auto& member : claim_json(*derived.chosen)) object.insert(member);
    } else {
        object["value"] = nullptr;
    }
    json::array rivals;
    for (const Claim& rival : derived.rivals) rivals.push_back(claim_json(rival));
    object["rivals"] = std::move(rivals);
    return object;
}

json::object cluster_json(const ClusterTable& table) {
    json::array facts, hosts;
    for (const auto& [fact, derived] : table.facts) facts.push_back(fact_json(fact, derived));
    for (const ListedHost& host : table.hosts) {
        json::object entry{{"name", valid_utf8(host.name)}};
        entry["slots"] = host.slots > 0 ? json::value(host.slots) : json::value(nullptr);
        hosts.push_back(std::move(entry));
    }
    return {{"situation", situation_text(table.situation)},
            {"family", text_or_null(table.family)},
            {"values", std::move(facts)},
            {"hosts", std::move(hosts)},
            {"hosts_source", text_or_null(table.hosts_source)}};
}

json::object told_json(const std::string& option, const ToldValue& value) {
    const auto source_of = [](OptionSource source) {
        switch (source) {
            case OptionSource::command_line: return "command line";
            case OptionSource::variable: return "variable";
            case OptionSource::config_file: return "configuration file";
            case OptionSource::standard: break;
        }
        return "default";
    };
    std::vector<std::string> shown;
    for (const std::string& text : value.texts) shown.push_back(shown_option_value(option, text));
    return {{"values", texts_json(shown)},
            {"source", source_of(value.origin.source)},
            {"source_name", text_or_null(value.origin.name)}};
}

json::object option_json(const ToldOption& option) {
    json::object object{{"name", option.name}};
    for (const auto& member : told_json(option.name, option.told.front())) object.insert(member);
    json::array rivals;
    for (std::size_t i = 1; i < option.told.size(); ++i) {
        if (option.told[i].texts != option.told.front().texts)
            rivals.push_back(told_json(option.name, option.told[i]));
    }
    object["rivals"] = std::move(rivals);
    return object;
}

json::array changes_json(const std::vector<EnvironmentChange>& changes) {
    json::array array;
    for (const EnvironmentChange& change : changes) {
        json::object object{{"name", valid_utf8(change.name)}};
        object["value"] = change.value ? json::value(valid_utf8(shown_value(change))) : json::value(nullptr);
        object["later"] = text_or_null(change.later);
        array.push_back(std::move(object));
    }
    return array;
}

json::object worker_json(const ExplainedWorker& worker) {
    json::array cpus(worker.cpus.begin(), worker.cpus.end());
    json::object object{{"local_rank", worker.local_rank}};
    object["rank"] = worker.rank ? json::value(*worker.rank) : json::value(nullptr);
    object["place"] = text_or_null(worker.place);
    object["cpus"] = worker.cpus.empty() ? json::value(nullptr) : json::value(std::move(cpus));
    object["memory_node"] = worker.memory_node < 0 ? json::value(nullptr) : json::value(worker.memory_node);
    object["command"] = texts_json(worker.command);
    object["environment"] = changes_json(worker.changes);
    return object;
}

json::array workers_array(const std::vector<ExplainedWorker>& workers) {
    json::array array;
    for (const ExplainedWorker& worker : workers) array.push_back(worker_json(worker));
    return array;
}

json::value number_or_null(const std::optional<int>& number) {
    return number ? json::value(*number) : json::value(nullptr);
}

json::array agents_array(const ExplainedStart& start) {
    json::array array;
    for (const ExplainedAgent& agent : start.agents) {
        json::object object{{"node", agent.node}, {"host", valid_utf8(agent.host)}, {"here", agent.is_here}};
        object["workers"] = number_or_null(agent.workers);
        object["slots"] = number_or_null(agent.slots);
        object["command"] = texts_json(agent.command);
        array.push_back(std::move(object));
    }
    return array;
}

json::value start_value(const std::optional<ExplainedStart>& start) {
    if (!start) return nullptr;
    json::object object;
    object["decided"] = text_or_null(start->decided);
    object["shell"] = texts_json(start->shell);
    object["agents"] = agents_array(*start);
    return object;
}

}  // namespace

std::string start_json(const ExplainedStart& start) { return json::serialize(agents_array(start)) + "\n"; }

std::string explanation_json(const Explanation& explanation) {
    json::array options, values;
    for (const ToldOption& option : explanation.options) options.push_back(option_json(option));
    for (const LaunchValue& value : explanation.values)
        values.push_back(
            {{"name", value.name}, {"value", valid_utf8(value.value)}, {"source", valid_utf8(value.source)}});
    const json::object root{{"version", DDPRUN_VERSION},
                            {"host", valid_utf8(explanation.host)},
                            {"cluster", cluster_json(explanation.table)},
                            {"options", std::move(options)},
                            {"start", start_value(explanation.start)},
                            {"launch", std::move(values)},
                            {"environment", changes_json(explanation.changes)},
                            {"workers", workers_array(explanation.workers)},
                            {"remarks", texts_json(explanation.remarks)},
                            {"refused", text_or_null(explanation.refusal)}};
    return json::serialize(root) + "\n";
}

std::string workers_json(const std::vector<ExplainedWorker>& workers) {
    return json::serialize(workers_array(workers)) + "\n";
}

}  // namespace ddprun::inline app
