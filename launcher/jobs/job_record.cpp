#include "launcher/jobs/job_record.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <concepts>
#include <utility>

#include "launcher/harmless_text.hpp"
#include "launcher/secret_text.hpp"
#include "rendezvous/codec/json_codec.hpp"
#include "rendezvous/control/job_command.hpp"

namespace ddprun {
inline namespace launch {
namespace {

namespace json = boost::json;

constexpr int kRecordSchema = 1;
constexpr std::size_t kMaxJobFileDepth = 8;
constexpr std::string_view kNameBytes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

std::vector<std::string> recorded(const std::vector<std::string>& command) {
    std::vector<std::string> words;
    std::size_t bytes = 0;
    for (const std::string& word : command) {
        bytes += word.size();
        words.push_back(bytes > kMaxCommandBytes ? "..." : word);
        if (bytes > kMaxCommandBytes) break;
    }
    return words;
}

struct RecordRules : JsonRules {
    static std::string text(const std::string& text, std::size_t) { return valid_utf8(text); }
};

// The workers are those of the result's ranks that this node had. Of a lost rank nothing is known, so it is
// passed over.
struct EndRules : JsonRules {
    // Launchers before 0.2 wrote no sentence.
    template <std::same_as<std::string> T>
    static bool take(const json::object& in, std::string_view name, T& text) {
        return take_member<JsonRules>(in, name, text) || (name == "sentence" && !in.contains(name));
    }

    template <std::same_as<std::vector<WorkerStatus>> T>
    static bool take(const json::object& in, std::string_view, T& workers) {
        int node_rank = 0;
        if (!take_member<JsonRules>(in, "node_rank", node_rank)) return false;
        const json::value* ranks = in.if_contains("ranks");
        if (ranks == nullptr || !ranks->is_array()) return true;
        for (const json::value& entry : ranks->get_array()) {
            WorkerStatus worker;
            int node = 0;
            if (from_json<JsonRules>(entry, worker) && worker.exit_code &&
                take_member<JsonRules>(entry.get_object(), "node_rank", node) && node == node_rank) {
                workers.push_back(worker);
            }
        }
        return true;
    }
};

template <class Rules, class T>
std::optional<T> read(std::string_view text) {
    const auto root = parse_json_object(text, kMaxJobFileDepth);
    T facts;
    if (!root || !take_members<Rules>(*root, facts)) return std::nullopt;
    return facts;
}

}  // namespace

std::string to_json(const JobRecord& record) {
    JobRecord bounded = record;
    bounded.command = recorded(record.command);
    json::object root{{"schema", kRecordSchema}};
    put_members<RecordRules>(root, bounded);
    return json::serialize(root) + "\n";
}

std::optional<JobRecord> parse_job_record(std::string_view text) {
    auto record = read<RecordRules, JobRecord>(text);
    return record && record->pid > 0 ? record : std::nullopt;
}

std::optional<JobEnd> parse_job_end(std::string_view text) { return read<EndRules, JobEnd>(text); }

std::string job_name(std::string_view program, std::string_view job_id) {
    const std::string shown = masked_text(program);
    program = shown;
    program.remove_prefix(std::min(program.size(), program.rfind('/') + 1));
    for (const std::string_view ending : {".py", ".sh"}) {
        if (program.ends_with(ending)) program.remove_suffix(ending.size());
    }
    std::string name;
    bool is_replaced = false;
    for (const char byte : program) {
        const bool was_replaced = std::exchange(is_replaced, kNameBytes.find(byte) == kNameBytes.npos);
        if (!is_replaced) name += byte;
        if (is_replaced && !was_replaced) name += '_';
    }
    name.resize(std::min(name.size(), kMaxJobName - kNameSigns - 1));
    // A name that begins with a dot is a job's that starts, with a dash an option.
    constexpr std::string_view kSeparators = "._-";
    if (name.find_first_not_of(kSeparators) == name.npos) name = "job";
    if (name.front() == '.' || name.front() == '-') name.front() = '_';
    Digest digest;
    digest.add(job_id);
    return fmt::format("{}-{:04x}", name, digest.value() % (1U << (4 * kNameSigns)));
}

}  // namespace launch
}  // namespace ddprun
