#include "launcher/jobs/run_record.hpp"

#include <algorithm>
#include <array>
#include <concepts>
#include <string>

#include "launcher/cluster/cluster_table.hpp"
#include "launcher/harmless_text.hpp"
#include "rendezvous/codec/json_codec.hpp"

namespace ddprun::inline launch {
namespace {

namespace json = boost::json;

constexpr std::string_view kRunKind = "ddprun run";
constexpr int kRunSchema = 1;
constexpr std::size_t kMaxRunDepth = 8;

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

// These decide wherever the launcher is started, within a worker, too. With an asterisk: all that begin so.
constexpr std::string_view kOwn =
    "DDPRUN_* PET_* TORCHELASTIC_LOG_LINE_* TORCHELASTIC_HEALTH_* TORCH_ELASTIC_* CUDA_VISIBLE_DEVICES HIP_VISIBLE_DEVICES "
    "ROCR_VISIBLE_DEVICES ZE_AFFINITY_MASK CUDA_DEVICE_ORDER OMP_NUM_THREADS PYTHON_EXEC VIRTUAL_ENV";

// A worker gets these by the names of options, or beside them (worker_env.hpp, and the devices).
constexpr std::string_view kGivenToWorkers =
    "DDPRUN_RUN_ID DDPRUN_ROUND DDPRUN_RESTART_REASON DDPRUN_MASTER_ADDR DDPRUN_NODE_ADDR DDPRUN_MESH_KEY DDPRUN_LIFE "
    "DDPRUN_DEVICE DDPRUN_NIC";

bool is_own(std::string_view name) { return matches_pattern(name, kOwn); }

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

bool is_deciding(std::string_view name) { return is_own(name) || is_cluster_variable(name); }

Environment deciding_variables(const Environment& environment) {
    const bool is_inside = is_in_worker(environment);
    Environment deciding;
    for (const auto& [name, value] : environment) {
        const bool decides =
            is_inside ? is_own(name) && !matches_pattern(name, kGivenToWorkers) : is_deciding(name);
        if (decides && !is_secret_name(name)) deciding.emplace(name, value);
    }
    return deciding;
}

Environment as_recorded(Environment own, const Environment& recorded) {
    const bool is_inside = is_in_worker(own);
    std::erase_if(own, [is_inside](const auto& entry) {
        const std::string& name = entry.first;
        // An outer job's own marks are how it finds what it has to end.
        return is_deciding(name) && !is_secret_name(name) &&
               !(is_inside && matches_pattern(name, kGivenToWorkers));
    });
    for (const auto& [name, value] : recorded) own[name] = value;
    return own;
}

}  // namespace ddprun::inline launch
