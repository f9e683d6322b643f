// A guardian with its workers, and what it reports. For its tests.
#pragma once

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "launcher/guardian/guardian.hpp"
#include "tests/launcher/worker_fixture.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {

using Lines = std::vector<std::string>;
inline const std::optional<std::filesystem::path> kNoCgroup;

// More than any kernel takes, and more than the guardian is sent.
inline constexpr std::size_t kHuge = 9 * 1024 * 1024;

// The processes below this one that have this name.
inline std::vector<pid_t> below_us(const std::string& name) {
    std::vector<pid_t> found;
    for (const ProcessStat& process : descendants(read_process_table().value(), ::getpid())) {
        if (process.command == name && !process.ended()) found.push_back(process.pid);
    }
    return found;
}

inline pid_t number_in(const std::optional<std::string>& line) {
    REQUIRE(line.has_value());
    REQUIRE(line->rfind("pid ", 0) == 0);
    return std::stoi(line->substr(4));
}

// A guardian, what it reported, and what its workers print.
class GuardedRun {
  public:
    explicit GuardedRun(const std::optional<std::filesystem::path>& cgroup_parent = kNoCgroup) {
        runner = make_guardian(
            context.get_executor(), 2, [this](const std::string& reason) { events.push_back(reason); },
            cgroup_parent);
    }

    std::variant<Started, StartFailure> start(const WorkerSpec& spec) {
        StdoutToPipe pipe;
        auto result = runner->start(spec, observer);
        out.emplace(pipe.take_reader());
        return result;
    }
    pid_t start(Lines modes) {
        auto result = start(stub_spec(std::move(modes)));
        REQUIRE(std::holds_alternative<Started>(result));
        return std::get<Started>(result).pid;
    }
    Lines take_events(std::size_t count) {
        run_until(context, [&] { return events.size() >= count; });
        return std::exchange(events, {});
    }
    SweepResult sweep() {
        std::optional<SweepResult> result;
        runner->sweep(std::chrono::seconds(60), [&](const SweepResult& found) { result = found; });
        CHECK_FALSE(result.has_value());
        run_until(context, [&] { return result.has_value(); });
        return *result;
    }

    boost::asio::io_context context{1};
    Lines events;
    CallingObserver observer{[this](const ExitStatus& status) { events.push_back(to_string(status)); },
                             [this] { events.push_back("gone"); }};
    std::optional<LineReader> out;
    std::unique_ptr<ProcessRunner> runner;
};

inline std::set<std::string> open_files(pid_t pid) {
    std::set<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fd")) {
        found.insert(entry.path().filename().string() + " " + std::filesystem::read_symlink(entry).string());
    }
    return found;
}

}  // namespace ddprun
