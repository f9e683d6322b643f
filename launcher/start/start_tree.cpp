#include "launcher/start/start_tree.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "launcher/cluster/family.hpp"
#include "rendezvous/base/check.hpp"
#include "rendezvous/codec/binary_codec.hpp"

namespace ddprun {
inline namespace launch {
namespace {

// An asterisk stands for all that begin so. The table of families has what a scheduler's step sets.
constexpr std::string_view kHostBound =
    "SSH_* DISPLAY WAYLAND_DISPLAY XAUTHORITY XDG_RUNTIME_DIR XDG_SESSION_* XDG_SEAT XDG_VTNR DBUS_SESSION_BUS_ADDRESS "
    "HOSTNAME HOST TMPDIR KRB5CCNAME GPG_TTY GPG_AGENT_INFO WINDOWID TMUX TMUX_PANE STY INVOCATION_ID JOURNAL_STREAM NOTIFY_SOCKET LISTEN_*";

// They may be another node's numbers.
constexpr std::string_view kGpuMasks =
    "CUDA_VISIBLE_DEVICES HIP_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES ZE_AFFINITY_MASK GPU_DEVICE_ORDINAL";

// These stay besides the masks; by the last one those of CUDA are counted.
constexpr std::string_view kKeptClean =
    "HOME USER LOGNAME SHELL PATH TERM LANG LANGUAGE LC_* TZ TMPDIR HOSTNAME CUDA_DEVICE_ORDER";

}  // namespace

bool is_host_bound(std::string_view name) {
    return matches_pattern(name, kHostBound) || is_bound_to_step(name);
}

Environment carried_environment(const Environment& environment) {
    Environment carried = environment;
    std::erase_if(carried, [](const auto& variable) { return is_host_bound(variable.first); });
    return carried;
}

Environment agent_environment(const Environment& carried, const Environment& own, HostsOwn which) {
    if (which.all) return own;
    Environment environment = carried;
    for (const auto& [name, value] : own) {
        if (is_host_bound(name) || (which.gpus && matches_pattern(name, kGpuMasks)))
            environment[name] = value;
    }
    return environment;
}

Environment clean_environment(const Environment& environment) {
    Environment clean = environment;
    std::erase_if(clean, [](const auto& variable) {
        return !matches_pattern(variable.first, kKeptClean) && !matches_pattern(variable.first, kGpuMasks);
    });
    return clean;
}

namespace {

constexpr std::size_t kFrameHeadBytes = 4;
constexpr std::string_view kFrameEnd = "\n";
constexpr unsigned kByteBits = 8;

template <class Message>
std::string framed(const Message& message) {
    const std::string body = to_bytes<PlainNumbers>(message);
    check(body.size() <= kMaxFrameDown, "a frame as long as that is not sent");
    std::string frame;
    frame.reserve(kFrameHeadBytes + body.size() + kFrameEnd.size());
    for (std::size_t i = 0; i < kFrameHeadBytes; ++i)
        frame.push_back(static_cast<char>(body.size() >> (i * kByteBits) & 0xff));
    return frame.append(body).append(kFrameEnd);
}

template <class Message>
std::optional<Message> parsed_frame(std::string_view body) {
    Message message;
    if (!from_bytes<PlainNumbers>(body, message)) return std::nullopt;
    return message;
}

}  // namespace

std::string frame_of(const DownMessage& message) { return framed(message); }
std::string frame_of(const UpMessage& message) { return framed(message); }
std::optional<DownMessage> parse_down(std::string_view body) { return parsed_frame<DownMessage>(body); }
std::optional<UpMessage> parse_up(std::string_view body) { return parsed_frame<UpMessage>(body); }

namespace {

constexpr int kMaxPort = 65535;
constexpr int kMaxShellCode = 255;

struct BranchWord {
    const std::vector<StartNode>& branch;

    bool has(int rank) const {
        return std::any_of(branch.begin(), branch.end(),
                           [rank](const StartNode& node) { return node.rank == rank; });
    }
    bool operator()(const AgentOutput& output) const { return has(output.rank); }
    bool operator()(const PortTaken& taken) const {
        return branch.front().rank == 0 && taken.port > 0 && taken.port <= kMaxPort;
    }
    bool operator()(const AgentRuns& runs) const { return has(runs.rank); }
    bool operator()(const AgentEnded& ended) const {
        return has(ended.rank) && ended.code >= 0 && ended.code <= kMaxShellCode;
    }
    bool operator()(const HostFailed& failed) const {
        return std::all_of(failed.ranks.begin(), failed.ranks.end(), [this](int rank) { return has(rank); });
    }
};

}  // namespace

bool speaks_for_itself(const UpMessage& message, const std::vector<StartNode>& branch) {
    return std::visit(BranchWord{branch}, message);
}

std::optional<std::string_view> FrameReader::next() {
    const std::string_view rest = std::string_view(held_).substr(taken_);
    if (broken_ || rest.size() < kFrameHeadBytes) {
        held_.erase(0, taken_);
        taken_ = 0;
        return std::nullopt;
    }
    std::size_t length = 0;
    for (std::size_t i = 0; i < kFrameHeadBytes; ++i)
        length |= std::size_t{static_cast<unsigned char>(rest[i])} << (i * kByteBits);
    const std::size_t whole = kFrameHeadBytes + length + kFrameEnd.size();
    broken_ = length > limit_ || (rest.size() >= whole && !rest.substr(0, whole).ends_with(kFrameEnd));
    if (broken_ || rest.size() < whole) {
        held_.erase(0, taken_);
        taken_ = 0;
        return std::nullopt;
    }
    taken_ += whole;
    return rest.substr(kFrameHeadBytes, length);
}

std::vector<StartBranch> branches_of(const std::vector<StartNode>& nodes, int fan_out) {
    check(fan_out >= 2, "a tree needs two branches");
    const std::size_t count = std::min(nodes.size(), static_cast<std::size_t>(fan_out));
    std::vector<StartBranch> branches;
    auto next = nodes.begin();
    for (std::size_t i = 0; i < count; ++i) {
        const auto left = static_cast<std::size_t>(nodes.end() - next);
        const std::size_t size = (left + count - i - 1) / (count - i);
        branches.emplace_back(next, next + static_cast<std::ptrdiff_t>(size));
        next += static_cast<std::ptrdiff_t>(size);
    }
    return branches;
}

std::vector<StartBranch> branches_of_starter(const std::vector<StartNode>& nodes, int fan_out) {
    std::vector<StartBranch> branches;
    StartBranch others;
    for (const StartNode& node : nodes) {
        if (node.rank == 0 || node.is_here) {
            branches.push_back({node});
        } else {
            others.push_back(node);
        }
    }
    std::vector<StartBranch> further = branches_of(others, fan_out);
    branches.insert(branches.end(), std::make_move_iterator(further.begin()),
                    std::make_move_iterator(further.end()));
    return branches;
}

StartPlan plan_of_branch(const StartPlan& whole, StartBranch branch) {
    StartPlan plan = whole;
    if (branch.front().rank != 0) plan.host_names.clear();
    plan.nodes = std::move(branch);
    return plan;
}

std::vector<std::string> agent_words(const StartPlan& plan, const StartNode& node, int port) {
    std::vector<std::pair<std::string, std::string>> decided{{"--nnodes", plan.nnodes},
                                                             {"--node-rank", std::to_string(node.rank)},
                                                             {"--master-addr", plan.master_addr}};
    if (port != 0) decided.emplace_back("--master-port", std::to_string(port));
    if (node.workers >= 0) decided.emplace_back("--nproc-per-node", std::to_string(node.workers));
    const auto is_decided = [&decided](const std::string& word) {
        const std::string_view name = std::string_view(word).substr(0, word.find('='));
        return std::any_of(decided.begin(), decided.end(),
                           [name](const auto& option) { return option.first == name; });
    };
    std::vector<std::string> words;
    std::remove_copy_if(plan.options.begin(), plan.options.end(), std::back_inserter(words), is_decided);
    for (const auto& [name, value] : decided) words.push_back(fmt::format("{}={}", name, value));
    words.emplace_back("--");
    words.insert(words.end(), plan.program.begin(), plan.program.end());
    return words;
}

}  // namespace launch
}  // namespace ddprun
