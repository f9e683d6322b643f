#include "launcher/jobs/run_record.hpp"

#include <algorithm>
#include <concepts>
#include <string>

#include "launcher/harmless_text.hpp"
#include "rendezvous/codec/json_codec.hpp"

namespace ddprun::inline launch {
namespace {

namespace json = boost::json;

constexpr std::string_view kRunKind = "ddprun run";
constexpr int kRunSchema = 1;
constexpr std::size_t kMaxRunDepth = 8;
// By this a job finds its processes.
constexpr std::string_view kJobVariable = "DDPRUN_RUN_ID";

struct RunRules : JsonRules {
    static std::string text(const std::string& text, std::size_t) { return valid_utf8(text); }

    template <std::same_as<Environment> T>
    static void put(json::object& out, std::string_view name, const T& variables) {
        json::object object;
        for (const auto& [variable, value] : variables) object[valid_utf8(variable)] = valid_utf8(value);
        out[name] = std::move(object);
    }
    template <std::same_as<Environment> T>
    static bool take(const json::object& in, std::string_view name, T& variables) {
        const json::value* member = in.if_contains(name);
        if (member == nullptr || !member->is_object()) return false;
        for (const auto& [variable, value] : member->get_object()) {
            if (!value.is_string() || variable.empty() || variable.find('=') != variable.npos) return false;
            variables[std::string(variable)] = std::string(value.get_string());
        }
        return true;
    }
    static bool take(const json::object& in, std::string_view name, std::optional<std::string>& text) {
        const json::value* member = in.if_contains(name);
        return member == nullptr || from_json<RunRules>(*member, text);
    }
};

bool has_zero(const std::string& text) { return text.find('\0') != text.npos; }

// Nothing that is executed may hold a zero.
bool can_be_executed(const RunRecord& record) {
    if (has_zero(record.program) || has_zero(record.called) || has_zero(record.directory)) return false;
    const bool has_program = record.program.starts_with('/');
    const auto is_bad = [](const auto& entry) { return has_zero(entry.first) || has_zero(entry.second); };
    return has_program && std::none_of(record.words.begin(), record.words.end(), has_zero) &&
           std::none_of(record.environment.begin(), record.environment.end(), is_bad);
}

}  // namespace

std::string to_json(const RunRecord& record) {
    json::object root{{"kind", kRunKind}, {"schema", kRunSchema}};
    put_members<RunRules>(root, record);
    RunRecord read;
    if (!take_members<RunRules>(root, read) || read != record) root["is_exact"] = false;
    return json::serialize(root) + "\n";
}

std::optional<RunRecord> parse_run_record(std::string_view text) {
    const auto root = parse_json_object(text, kMaxRunDepth);
    RunRecord record;
    if (!root) return std::nullopt;
    const json::value* kind = root->if_contains("kind");
    const bool is_ours = kind != nullptr && kind->is_string() && kind->get_string() == kRunKind;
    if (!is_ours || !take_members<RunRules>(*root, record) || !can_be_executed(record)) return std::nullopt;
    return record;
}

std::size_t newest_run(const std::vector<RunRecord>& records, const std::string& host) {
    const auto newest = std::max_element(
        records.begin(), records.end(),
        [](const RunRecord& one, const RunRecord& other) { return one.start_unix_ms < other.start_unix_ms; });
    const auto found = [&](auto is_meant) {
        return std::find_if(records.begin(), records.end(), [&](const RunRecord& one) {
            return newest->job_id && one.job_id == newest->job_id && is_meant(one);
        });
    };
    auto best = found([](const RunRecord& one) { return one.node_rank == 0; });
    if (best == records.end()) best = found([&](const RunRecord& one) { return one.host == host; });
    return static_cast<std::size_t>((best == records.end() ? newest : best) - records.begin());
}

Environment without_secrets(Environment environment) {
    std::erase_if(environment, [](const auto& variable) { return is_secret_name(variable.first); });
    return environment;
}

Environment as_recorded(const Environment& own, Environment recorded) {
    for (const auto& [name, value] : own) {
        if (is_secret_name(name) || name == kJobVariable) recorded[name] = value;
    }
    return recorded;
}

}  // namespace ddprun::inline launch
