#include "launcher/report/result_file.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>

#include "launcher/harmless_text.hpp"
#include "launcher/secret_text.hpp"
#include "launcher/wall_clock.hpp"
#include "rendezvous/codec/json_codec.hpp"
#include "rendezvous/job/exit_status.hpp"
#include "rendezvous/system/small_file.hpp"

namespace ddprun {
inline namespace launch {
namespace {

namespace json = boost::json;

// Raised when a member changes its meaning or goes; new members do not count.
constexpr int kResultSchema = 1;

// A member has this value where nothing is known; the file has null there.
constexpr std::pair<std::string_view, int> kNothing[] = {
    {"rank", -1}, {"local_rank", -1}, {"witness", -1}, {"pid", 0}, {"signal", 0}};

struct ResultRules : JsonRules {
    static std::string text(const std::string& text, std::size_t) { return valid_utf8(masked_text(text)); }

    // Nothing is known of a lost rank.
    template <std::same_as<std::vector<RankEnd>> T>
    static void put(json::object& out, std::string_view name, const T& ends) {
        json::array ranks = json_of<ResultRules>(ends).as_array();
        for (std::size_t i = 0; i < ends.size(); ++i) {
            if (ends[i].manner != RankEnd::Manner::lost) continue;
            for (const char* unknown : {"exit_code", "wall_ms"}) ranks[i].as_object()[unknown] = nullptr;
        }
        out[name] = std::move(ranks);
    }
    // Signals and times are there as a number and as people write them.
    template <std::integral T>
    requires(!std::same_as<T, bool>) static void put(json::object& out, std::string_view name, T number) {
        constexpr std::string_view kUnixTime = "_unix_ms";
        if (name == "unix_time_ms") name = "time_unix_ms";
        const bool is_time = name.ends_with(kUnixTime);
        bool known = !is_time || number != 0;
        for (const auto& [member, nothing] : kNothing)
            known = known && !(member == name && number == nothing);
        out[name] = known ? json::value(number) : json::value(nullptr);
        if (name == "signal")
            out["signal_name"] = known ? json::value(signal_text(number)) : json::value(nullptr);
        if (!is_time) return;
        name.remove_suffix(kUnixTime.size());
        out[name] = known ? json::value(utc_text(number)) : json::value(nullptr);
    }
};

std::optional<std::string> complaint(const std::filesystem::path& path,
                                     const boost::system::error_code& error) {
    if (!error) return std::nullopt;
    return fmt::format("--result-file '{}' cannot be written: {}", path.string(), error.message());
}

}  // namespace

Outcome outcome_of(int exit_code, const std::optional<Failure>& cause, bool joined) {
    if (exit_code == 0) return Outcome::succeeded;
    if (exit_code == kExitPreempted && (!cause || cause->kind == Failure::Kind::signalled))
        return Outcome::preempted;
    if (cause) {
        switch (cause->kind) {
            case Failure::Kind::worker_failed:
                return cause->pid == 0 && cause->witness < 0 ? Outcome::not_started : Outcome::failed;
            case Failure::Kind::resized:
            case Failure::Kind::hang:
            case Failure::Kind::overdue: return Outcome::failed;
            case Failure::Kind::node_lost: return Outcome::node_lost;
            case Failure::Kind::signalled: return Outcome::signalled;
        }
    }
    if (exit_code > kExitSignalBase) return Outcome::signalled;
    return joined ? Outcome::failed : Outcome::not_admitted;
}

std::string_view to_text(Outcome outcome) { return name_of_value(outcome); }

std::string to_json(const JobResult& result) {
    JobResult sorted = result;
    std::sort(sorted.ranks.begin(), sorted.ranks.end(),
              [](const RankEnd& a, const RankEnd& b) { return a.rank < b.rank; });
    json::object root{{"schema", kResultSchema}, {"version", DDPRUN_VERSION}};
    put_members<ResultRules>(root, sorted);
    return json::serialize(root) + "\n";
}

std::optional<std::string> result_file_complaint(const std::filesystem::path& path) {
    return path.empty() ? std::nullopt : complaint(path, try_replace(path));
}

std::optional<std::string> write_result_file(const std::filesystem::path& path, JobResult& result) {
    if (path.empty()) return std::nullopt;
    auto trouble = complaint(path, replace_file(path, to_json(result)));
    if (trouble && result.exit_code == 0) {
        result.exit_code = kExitSystem;
        result.message = *trouble;
    }
    return trouble;
}

}  // namespace launch
}  // namespace ddprun
