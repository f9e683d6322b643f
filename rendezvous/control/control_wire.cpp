#include "rendezvous/control/control_wire.hpp"

#include <array>
#include <utility>

#include "rendezvous/base/error.hpp"
#include "rendezvous/codec/json_codec.hpp"
#include "rendezvous/store/wire.hpp"

namespace ddprun {
inline namespace job {
namespace {

namespace json = boost::json;

constexpr std::size_t kLengthBytes = sizeof(std::uint32_t);
constexpr std::size_t kMaxControlDepth = 32;

// A failure that may be missing is told by a member of its own.
struct ControlRules : JsonRules {
    static constexpr std::size_t kMaxText = kMaxControlText;
    static constexpr std::size_t kMaxItemText = kMaxLastLineText;
    static constexpr std::size_t kMaxItems = 0;
    static constexpr NumberRange kNumbers = kCountRange;

    template <std::same_as<std::optional<Failure>> T>
    static void put(json::object& out, std::string_view name, const T& value) {
        out["failed"] = value.has_value();
        if (value) out[name] = json_of<ControlRules>(*value);
    }
    template <std::same_as<std::optional<Failure>> T>
    static bool take(const json::object& in, std::string_view name, T& value) {
        bool failed = false;
        value.reset();
        return take_member<ControlRules>(in, "failed", failed) &&
               (!failed || take_member<ControlRules>(in, name, value.emplace()));
    }
};

// The rows stand in the order of ControlMessage's alternatives.
constexpr std::array<std::string_view, std::variant_size_v<ControlMessage>> kTypeNames = {"hello",
                                                                                          "workers_succeeded",
                                                                                          "worker_failed",
                                                                                          "worker_dying",
                                                                                          "agent_signalled",
                                                                                          "workers_gone",
                                                                                          "rank_ends",
                                                                                          "notice_signal",
                                                                                          "heartbeat",
                                                                                          "suspended",
                                                                                          "rank_succeeded",
                                                                                          "still_running",
                                                                                          "judgement",
                                                                                          "lease_over",
                                                                                          "goodbye",
                                                                                          "follow",
                                                                                          "job_moved",
                                                                                          "welcome",
                                                                                          "lead",
                                                                                          "stepped_down",
                                                                                          "member_gone",
                                                                                          "member_list",
                                                                                          "given_up",
                                                                                          "refused",
                                                                                          "peer_refused",
                                                                                          "nodes_differ",
                                                                                          "waiting",
                                                                                          "parked",
                                                                                          "round_ready",
                                                                                          "peer_dying",
                                                                                          "who_runs",
                                                                                          "remark",
                                                                                          "judge_failure",
                                                                                          "stop",
                                                                                          "restarting",
                                                                                          "finish",
                                                                                          "question",
                                                                                          "answer"};

static_assert(!kTypeNames.back().empty(), "a message without a name");

// Agents of another version may say more or less of themselves. Enough is taken to tell them so.
std::optional<ControlMessage> foreign_hello(const json::object& object) {
    Hello hello;
    if (!take_member<ControlRules>(object, "version", hello.version) || hello.version == DDPRUN_VERSION)
        return std::nullopt;
    take_member<ControlRules>(object, "run_id", hello.run_id);
    take_member<ControlRules, kMaxHostText>(object, "host", hello.host);
    take_member<ControlRules>(object, "pid", hello.pid);
    return hello;
}

}  // namespace

std::string encode_control(const ControlMessage& message) {
    json::object object;
    std::visit([&object](const auto& value) { put_members<ControlRules>(object, value); }, message);
    object["type"] = kTypeNames.at(message.index());
    std::string text = json::serialize(object);
    check(text.size() <= kMaxControlFrame, "a control message does not fit its frame");
    std::string frame;
    put_u32(frame, static_cast<std::uint32_t>(text.size()));
    return frame + text;
}

SharedFrames encode_ends(const std::vector<RankEnds>& messages) {
    std::vector<std::string> frames;
    for (const RankEnds& message : messages) frames.push_back(encode_control(message));
    return std::make_shared<const std::vector<std::string>>(std::move(frames));
}

std::optional<ControlMessage> decode_control(std::string_view text) {
    // A program's path may be any bytes.
    const auto object = parse_json_object(text, kMaxControlDepth, true);
    const json::value* type = object ? object->if_contains("type") : nullptr;
    std::optional<ControlMessage> message;
    boost::mp11::mp_for_each<boost::mp11::mp_iota_c<kTypeNames.size()>>([&](auto index) {
        if (type == nullptr || *type != json::string(kTypeNames[index])) return;
        std::variant_alternative_t<index, ControlMessage> members;
        if (take_members<ControlRules>(*object, members)) message = std::move(members);
    });
    if (!message && type != nullptr && *type == "hello") message = foreign_hello(*object);
    return message;
}

std::optional<bool> has_first_message(std::string_view said) {
    if (said.size() < kLengthBytes) return false;
    const std::size_t length = load_u32(said.data());
    if (length == 0 || length > kMaxFirstFrame - kLengthBytes) return std::nullopt;
    return said.size() >= kLengthBytes + length;
}

std::optional<ControlMessage> ControlFrames::next() {
    if (is_broken_ || buffer_.size() < kLengthBytes) return std::nullopt;
    const std::size_t length = load_u32(buffer_.data());
    is_broken_ = length == 0 || length > kMaxControlFrame;
    if (is_broken_ || buffer_.size() < kLengthBytes + length) return std::nullopt;
    auto message = decode_control(std::string_view(buffer_).substr(kLengthBytes, length));
    is_broken_ = !message;
    buffer_.erase(0, kLengthBytes + length);
    return message;
}

}  // namespace job
}  // namespace ddprun
