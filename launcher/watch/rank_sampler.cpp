#include "launcher/watch/rank_sampler.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "launcher/file_state.hpp"
#include "launcher/look/waits/open_files.hpp"
#include "launcher/look/waits/socket_table.hpp"
#include "launcher/look/waits/system_calls.hpp"
#include "rendezvous/system/small_file.hpp"
#include "rendezvous/text/split.hpp"
#include "rendezvous/text/whole_number.hpp"

namespace ddprun {
inline namespace launch {
namespace {

// A line of stat has 52 numbers and a name; status has the user's groups.
constexpr std::size_t kMaxProcessFile = 64 * 1024;
constexpr std::chrono::milliseconds kMostForSockets{200};

// These count the words of stat behind the name.
constexpr std::size_t kUserTicksWord = 11;
constexpr std::size_t kTicksWords = 4;

std::string text_of(pid_t process, std::string_view file) {
    const auto text = read_small_file(fmt::format("/proc/{}/{}", process, file), kMaxProcessFile);
    return text.has_value() ? std::string(*text) : std::string();
}

// Returns the number behind "NAME:" at the beginning of a line; 0: there is none.
std::uint64_t number_of(std::string_view text, std::string_view name) {
    for (const std::string_view line : lines_of(text)) {
        if (line.starts_with(name) && line.substr(name.size()).starts_with(':'))
            return whole_number<std::uint64_t>(trimmed(line.substr(name.size() + 1))).value_or(0);
    }
    return 0;
}

bool is_loopback(const InternetAddress& address) {
    constexpr std::array<std::uint8_t, 13> kFour = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127};
    InternetAddress six;
    six.bytes.back() = 1;
    return std::equal(kFour.begin(), kFour.end(), address.bytes.begin()) || address.bytes == six.bytes;
}

std::chrono::milliseconds time_of(std::uint64_t ticks) {
    static const auto per_second = static_cast<std::uint64_t>(std::max(::sysconf(_SC_CLK_TCK), 1L));
    return std::chrono::milliseconds(ticks * 1000 / per_second);
}

}  // namespace

void RisingSum::take(std::uint64_t key, std::uint64_t count) {
    Counter& counter = counters_[key];
    // One that fell is another one.
    sum_ += count >= counter.count ? count - counter.count : count;
    counter = {count, true};
}

std::uint64_t RisingSum::sum() {
    std::erase_if(counters_, [](const auto& entry) { return !entry.second.is_new; });
    for (auto& [key, counter] : counters_) counter.is_new = false;
    return sum_;
}

ProcessBytes parse_process_bytes(std::string_view text) {
    return {.rchar = number_of(text, "rchar"),
            .wchar = number_of(text, "wchar"),
            .read_bytes = number_of(text, "read_bytes"),
            .write_bytes = number_of(text, "write_bytes")};
}

ProcessTicks parse_process_ticks(std::string_view line) {
    // A name may hold parentheses and blanks.
    const auto end = line.rfind(')');
    if (end == std::string_view::npos || line.size() < end + 3) return {};
    const auto words = split_at(line.substr(end + 2), ' ');
    if (words.size() < kUserTicksWord + kTicksWords) return {};
    const auto ticks = [&words](std::size_t place) {
        return whole_number<std::uint64_t>(words[kUserTicksWord + place]).value_or(0);
    };
    return {ticks(0) + ticks(1), ticks(2) + ticks(3)};
}

bool waits_untimed(const ThreadView& thread) {
    if (!thread.system_call) return false;
    const SystemCall* call = find_system_call(*thread.system_call);
    return call != nullptr && !is_timed(*call, thread.arguments);
}

RankMeasure RankSampler::measure(const RankProcesses& rank, Seen& seen) {
    if (std::exchange(seen.worker, rank.processes.front()) != rank.processes.front())
        seen = {.worker = seen.worker};
    const auto& all = rank.processes;
    // A worker may be a shell for its first moments, and then run Python itself.
    if (std::find(all.begin(), all.end(), seen.working) == all.end() || seen.working == seen.worker)
        seen.working = working_process(rank);
    std::map<pid_t, bool> children;
    bool is_below = false;
    for (const pid_t process : all) {
        const auto key = static_cast<std::uint64_t>(process);
        if (process == seen.working) {
            is_below = true;
        } else if (is_below) {
            children[process] = true;
            seen.children_so_far += seen.children.contains(process) ? 0 : 1;
        }
        if (!is_below) continue;
        const ProcessBytes bytes = parse_process_bytes(text_of(process, "io"));
        seen.disk.take(key, bytes.read_bytes + bytes.write_bytes);
        seen.file.take(key, bytes.rchar + bytes.wchar);
        seen.read.take(key, std::max(bytes.rchar, bytes.read_bytes));
        seen.written.take(key, std::max(bytes.wchar, bytes.write_bytes));
        const ProcessTicks ticks = parse_process_ticks(text_of(process, "stat"));
        seen.cpu.take(key, (process == seen.working ? 0 : ticks.own) + ticks.of_children);
    }
    seen.children = std::move(children);
    const std::string task = fmt::format("task/{}/", seen.working);
    ThreadView main;
    const bool is_read = parse_system_call(text_of(seen.working, task + "syscall"), main);
    return {.disk_bytes = seen.disk.sum(),
            .file_bytes = seen.file.sum(),
            .read_bytes = seen.read.sum(),
            .written_bytes = seen.written.sum(),
            .children = seen.children_so_far,
            .children_cpu = time_of(seen.cpu.sum()),
            .switches = number_of(text_of(seen.working, task + "status"), "voluntary_ctxt_switches"),
            .waits_untimed = is_read && waits_untimed(main)};
}

// Counted are connections between two ranks of this node, and those to other machines in a job that has other
// nodes: which of these lead to ranks, nothing tells.
void RankSampler::add_traffic(const std::vector<RankProcesses>& ranks, bool has_other_nodes,
                              NodeSample& sample) {
    std::map<pid_t, int> rank_of;
    std::vector<pid_t> processes;
    for (const RankProcesses& rank : ranks) {
        for (const pid_t process : rank.processes) {
            rank_of.emplace(process, rank.worker.rank);
            processes.push_back(process);
        }
    }
    const Deadline deadline = Deadline::clock::now() + kMostForSockets;
    const SocketTable sockets = SocketTable::read(deadline);
    const OpenFiles files = OpenFiles::read(processes, deadline);
    const auto owner_of = [&](const SocketEntry& socket) {
        const auto owners = files.with(fmt::format("socket:[{}]", socket.inode));
        return owners.empty() ? -1 : rank_of.at(owners.front().process);
    };
    for (const SocketEntry& socket : sockets.all()) {
        if (socket.is_local || socket.is_listening) continue;
        const int rank = owner_of(socket);
        if (rank < 0) continue;
        const SocketEntry* other = sockets.other_end_of(socket);
        const int other_rank = other == nullptr ? -1 : owner_of(*other);
        const bool is_remote = has_other_nodes && other == nullptr && !is_loopback(socket.remote);
        if (is_remote || (other_rank >= 0 && other_rank != rank))
            seen_[rank].traffic.take(socket.inode, socket.own.sent + socket.own.received);
    }
    for (auto& [rank, measure] : sample.ranks) measure.traffic_bytes = seen_[rank].traffic.sum();
}

NodeSample RankSampler::sample(const AgentStatus& node) {
    NodeSample sample;
    if (!progress_file_.empty()) sample.progress_file = file_state(progress_file_);
    std::vector<RankProcesses> ranks = rank_processes(node);
    std::erase_if(ranks, [](const RankProcesses& rank) { return rank.processes.empty(); });
    std::set<int> running;
    for (const RankProcesses& rank : ranks) {
        running.insert(rank.worker.rank);
        sample.ranks.emplace(rank.worker.rank, measure(rank, seen_[rank.worker.rank]));
    }
    std::erase_if(seen_, [&running](const auto& entry) { return !running.contains(entry.first); });
    if (node.world_size > 1) add_traffic(ranks, node.group_world_size > 1, sample);
    return sample;
}

}  // namespace launch
}  // namespace ddprun
