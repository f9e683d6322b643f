#include "launcher/features/stuck_workers.hpp"

#include <fmt/core.h>

#include <boost/asio/steady_timer.hpp>
#include <filesystem>
#include <sstream>
#include <utility>

#include "launcher/harmless_text.hpp"
#include "launcher/look/mounts.hpp"
#include "launcher/process/process_table.hpp"
#include "rendezvous/base/alive.hpp"
#include "rendezvous/system/small_file.hpp"
#include "rendezvous/text/split.hpp"
#include "rendezvous/text/whole_number.hpp"

namespace ddprun {
inline namespace launch {
namespace {

constexpr std::size_t kMaxMountFile = 4 * 1024 * 1024;
constexpr std::size_t kMaxCallFile = 4096;
constexpr int kLongestLimit = 365 * 24 * 3600;  // in seconds

std::uint64_t switches_in(std::string_view status) {
    std::uint64_t sum = 0;
    for (const std::string_view line : lines_of(status)) {
        const auto end = line.find("ctxt_switches:\t");
        if (end != std::string_view::npos)
            sum += whole_number<std::uint64_t>(line.substr(line.find('\t') + 1)).value_or(0);
    }
    return sum;
}

}  // namespace

std::optional<pid_t> StuckWorkers::see(const std::vector<WaitSight>& sights, TimePoint now) {
    std::map<pid_t, Wait> waits;
    std::optional<pid_t> stuck;
    for (const WaitSight& sight : sights) {
        if (sight.state != 'D') continue;
        const auto before = waits_.find(sight.pid);
        const bool is_same = before != waits_.end() && before->second.switches == sight.switches;
        const Wait wait = is_same ? before->second : Wait{sight.switches, now};
        if (!stuck && now - wait.since >= limit_) stuck = sight.pid;
        waits.emplace(sight.pid, wait);
    }
    waits_ = std::move(waits);
    return stuck;
}

std::optional<std::chrono::milliseconds> parse_stuck_limit(std::string_view text) {
    const auto seconds = whole_number<int>(text, 1, kLongestLimit);
    return seconds ? std::optional<std::chrono::milliseconds>(std::chrono::seconds(*seconds)) : std::nullopt;
}

std::string awaited_mount(pid_t process, const std::string& proc) {
    const std::string folder = fmt::format("{}/{}", proc, process);
    // "0 0x3 0x7f… …": the number of the call, and its arguments; of those that wait for a file the first is
    // its descriptor.
    const auto call = read_small_file(folder + "/syscall", kMaxCallFile);
    if (!call.has_value()) return {};
    std::istringstream words{std::string(*call)};
    std::string number, argument;
    words >> number >> argument;
    const auto descriptor = argument.starts_with("0x")
                                ? whole_number<int>(std::string_view(argument).substr(2), 0, 1 << 20, 16)
                                : std::nullopt;
    if (!descriptor) return {};
    // The name of the link is the kernel's own, and waits for nobody.
    std::error_code none;
    const auto path = std::filesystem::read_symlink(fmt::format("{}/fd/{}", folder, *descriptor), none);
    const auto mounts = read_small_file(folder + "/mountinfo", kMaxMountFile);
    return none || !mounts.has_value() ? std::string() : harmless_line(mount_of(*mounts, path.native()));
}

namespace {

class StuckWatch final : public Feature {
  public:
    explicit StuckWatch(std::chrono::milliseconds limit) : limit_(limit) {}

    void began(AgentControls& agent) override {
        agent_ = &agent;
        timer_.emplace(agent.executor());
    }
    void workers_run(const RoundReady&) override {
        stuck_ = StuckWorkers(limit_);
        look_later();
    }
    void round_over() override { timer_->cancel(); }
    void agent_leaves() override { timer_.reset(); }

  private:
    // Nothing tells of a process that its state has not changed.
    void look_later() {
        timer_->expires_after(stuck_.pause());
        timer_->async_wait(alive_.guard([this](const boost::system::error_code& cancelled) {
            if (!cancelled) look();
        }));
    }

    void look() {
        std::vector<WaitSight> sights;
        const std::vector<WorkerStatus> workers = agent_->status().workers;
        for (const WorkerStatus& worker : workers) {
            const auto process = worker.exit_code ? std::nullopt : read_process_stat(worker.pid);
            if (!process || process->state != 'D') continue;
            const auto status = read_small_file(fmt::format("/proc/{}/status", worker.pid), kMaxStatusFile);
            sights.push_back({worker.pid, 'D', status.has_value() ? switches_in(*status) : 0});
        }
        const auto stuck = stuck_.see(sights, std::chrono::steady_clock::now());
        for (const WorkerStatus& worker : workers) {
            if (stuck == worker.pid) return tell(worker);
        }
        look_later();
    }

    void tell(const WorkerStatus& worker) {
        const auto process = read_process_stat(worker.pid);
        if (!process) return look_later();
        const std::string place = describe_survivor(*process).wchan;
        const std::string mount = awaited_mount(worker.pid);
        agent_->worker_hangs(worker.local_rank,
                             fmt::format("it has not come back from the kernel for {} s (state D{}{}; {})",
                                         std::chrono::duration_cast<std::chrono::seconds>(limit_).count(),
                                         place.empty() ? "" : " in " + place,
                                         mount.empty() ? "" : ", for a file of " + mount, kStuckVariable));
    }

    const std::chrono::milliseconds limit_;
    AgentControls* agent_ = nullptr;
    StuckWorkers stuck_{limit_};
    std::optional<boost::asio::steady_timer> timer_;
    Alive alive_;
};

}  // namespace

std::unique_ptr<Feature> make_stuck_workers(const FeatureInputs& inputs) {
    const std::string& text = inputs.options.environment.at(kStuckVariable);
    if (const auto limit = parse_stuck_limit(text)) return std::make_unique<StuckWatch>(*limit);
    if (text != "0")
        inputs.log.warn(fmt::format("{}={} is no number of seconds, and is passed over", kStuckVariable,
                                    harmless_line(text)));
    return nullptr;
}

}  // namespace launch
}  // namespace ddprun
