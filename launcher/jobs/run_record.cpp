#include "launcher/jobs/run_record.hpp"

#include <algorithm>
#include <array>
#include <concepts>

#include "launcher/harmless_text.hpp"
#include "launcher/secret_name.hpp"
#include "launcher/secret_text.hpp"
#include "rendezvous/codec/json_codec.hpp"

namespace ddprun {
inline namespace launch {
namespace {

namespace json = boost::json;

constexpr std::string_view kRunKind = "ddprun run";
constexpr int kRunSchema = 1;
constexpr std::size_t kMaxRunDepth = 8;
// What decides how a job runs is said by these; a value of any other may be about the user.
constexpr std::array<std::string_view, 6> kRecordedFamilies = {"NCCL_",  "CUDA_", "OMP_",
                                                               "TORCH_", "GLOO_", "DDPRUN_"};
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
};

}  // namespace

std::string to_json(const RunRecord& record) {
    json::object root{{"kind", kRunKind}, {"schema", kRunSchema}};
    put_members<RunRules>(root, record);
    return json::serialize(root) + "\n";
}

std::optional<RunRecord> parse_run_record(std::string_view text) {
    const auto root = parse_json_object(text, kMaxRunDepth);
    RunRecord record;
    if (!root) return std::nullopt;
    const json::value* kind = root->if_contains("kind");
    const bool is_ours = kind != nullptr && kind->is_string() && kind->get_string() == kRunKind;
    if (!is_ours || !take_members<RunRules>(*root, record)) return std::nullopt;
    return record;
}

RecordedVariables recorded_variables(const Environment& environment) {
    RecordedVariables recorded;
    for (const auto& [name, value] : environment) {
        recorded.names.push_back(name);
        const bool is_kept =
            std::any_of(kRecordedFamilies.begin(), kRecordedFamilies.end(),
                        [&name = name](std::string_view family) { return name.starts_with(family); });
        if (is_kept && !is_secret_name(name)) recorded.values[name] = masked_text(value);
    }
    return recorded;
}

}  // namespace launch
}  // namespace ddprun
