#include "launcher/jobs/job_record.hpp"

#include <boost/json.hpp>

#include "launcher/harmless_text.hpp"
#include "launcher/jobs/json_object.hpp"

namespace ddprun {
namespace {

namespace json = boost::json;

constexpr int kRecordSchema = 1;
constexpr std::size_t kMaxNameBytes = 120;
constexpr std::string_view kNameBytes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

json::array words_of(const std::vector<std::string>& command) {
    json::array words;
    std::size_t bytes = 0;
    for (const std::string& word : command) {
        bytes += word.size();
        if (bytes > kMaxCommandBytes) {
            words.emplace_back("...");
            break;
        }
        words.emplace_back(valid_utf8(word));
    }
    return words;
}

// Fills in what the object has; `whole` is false as soon as a member is missing or of another kind.
class Members {
  public:
    explicit Members(const json::object& object) : object_(object) {}

    template <class Number>
    void number(std::string_view name, Number& number) {
        const json::value* value = object_.if_contains(name);
        json::error_code trouble;
        if (value != nullptr && value->is_number()) number = value->to_number<Number>(trouble);
        whole_ = whole_ && value != nullptr && value->is_number() && !trouble;
    }
    void text(std::string_view name, std::string& text) {
        const json::value* value = object_.if_contains(name);
        const json::string* found = value != nullptr ? value->if_string() : nullptr;
        if (found != nullptr) text.assign(found->data(), found->size());
        whole_ = whole_ && found != nullptr;
    }
    void texts(std::string_view name, std::vector<std::string>& texts) {
        const json::value* value = object_.if_contains(name);
        const json::array* found = value != nullptr ? value->if_array() : nullptr;
        whole_ = whole_ && found != nullptr;
        if (found == nullptr) return;
        for (const json::value& entry : *found) {
            const json::string* word = entry.if_string();
            whole_ = whole_ && word != nullptr;
            if (word != nullptr) texts.emplace_back(word->data(), word->size());
        }
    }
    bool whole() const { return whole_; }

  private:
    const json::object& object_;
    bool whole_ = true;
};

// Of a lost rank nothing is known, so it is passed over.
std::vector<WorkerStatus> workers_of(const json::object& result, int node_rank) {
    std::vector<WorkerStatus> workers;
    const json::value* ranks = result.if_contains("ranks");
    if (ranks == nullptr || !ranks->is_array()) return workers;
    for (const json::value& entry : ranks->get_array()) {
        if (!entry.is_object()) continue;
        WorkerStatus worker{.running = false};
        int node = 0;
        Members members(entry.get_object());
        members.number("rank", worker.rank);
        members.number("local_rank", worker.local_rank);
        members.number("node_rank", node);
        members.number("pid", worker.pid);
        members.number("exit_code", worker.exit_code);
        if (members.whole() && node == node_rank) workers.push_back(worker);
    }
    return workers;
}

}  // namespace

std::string to_json(const JobRecord& record) {
    json::object root;
    root["schema"] = kRecordSchema;
    root["id"] = valid_utf8(record.id);
    root["job_id"] = valid_utf8(record.job_id);
    root["entry_name"] = valid_utf8(record.entry_name);
    root["directory"] = valid_utf8(record.directory);
    root["command"] = words_of(record.command);
    root["node_rank"] = record.node_rank;
    root["nnodes"] = record.nnodes;
    root["workers"] = record.workers;
    root["pid"] = record.pid;
    root["start_time"] = record.start_time;
    root["start_unix_ms"] = record.start_unix_ms;
    return json::serialize(root) + "\n";
}

std::optional<JobRecord> parse_job_record(std::string_view text) {
    const auto root = parse_json_object(text);
    if (!root) return std::nullopt;
    JobRecord record;
    Members members(*root);
    members.text("id", record.id);
    members.text("job_id", record.job_id);
    members.text("entry_name", record.entry_name);
    members.text("directory", record.directory);
    members.texts("command", record.command);
    members.number("node_rank", record.node_rank);
    members.number("nnodes", record.nnodes);
    members.number("workers", record.workers);
    members.number("pid", record.pid);
    members.number("start_time", record.start_time);
    members.number("start_unix_ms", record.start_unix_ms);
    return members.whole() && record.pid > 0 ? std::optional(record) : std::nullopt;
}

std::optional<JobEnd> parse_job_end(std::string_view text) {
    const auto root = parse_json_object(text);
    if (!root) return std::nullopt;
    JobEnd end;
    Members members(*root);
    members.number("exit_code", end.exit_code);
    members.text("outcome", end.outcome);
    members.text("message", end.message);
    members.number("end_unix_ms", end.end_unix_ms);
    members.number("restart_count", end.restart_count);
    members.number("max_restarts", end.max_restarts);
    int node_rank = 0;
    members.number("node_rank", node_rank);
    if (!members.whole()) return std::nullopt;
    end.workers = workers_of(*root, node_rank);
    return end;
}

std::string job_folder_name(std::string_view job_id, int node_rank, int nnodes) {
    if (job_id.size() > kMaxNameBytes) job_id.remove_prefix(job_id.size() - kMaxNameBytes);
    std::string name(job_id);
    for (char& byte : name) {
        if (kNameBytes.find(byte) == std::string_view::npos) byte = '_';
    }
    // One that begins with a dot is a job that starts, with a dash an option.
    if (name.empty() || name.front() == '.' || name.front() == '-') name.insert(0, "_");
    if (nnodes > 1) name += "." + std::to_string(node_rank);
    return name;
}

}  // namespace ddprun
