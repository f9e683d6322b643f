#include "rendezvous/coordinator/control_wire.hpp"

#include <array>

#include "rendezvous/job/json_codec.hpp"
#include "rendezvous/system/error.hpp"

namespace ddprun {
namespace {

namespace json = boost::json;

constexpr std::size_t kLengthBytes = 4;
constexpr std::size_t kMaxControlDepth = 32;

// A failure that may be missing is told by a member of its own.
struct ControlRules : JsonRules {
    static constexpr std::size_t kMaxText = kMaxControlText;
    static constexpr std::size_t kMaxItemText = kMaxLastLineText;
    static constexpr std::size_t kMaxItems = 0;

    template <std::same_as<std::optional<Failure>> T>
    static void put(json::object& out, std::string_view name, const T& value) {
        out["failed"] = value.has_value();
        out[name] = json_of<ControlRules>(value.value_or(Failure{}));
    }
    template <std::same_as<std::optional<Failure>> T>
    static bool take(const json::object& in, std::string_view name, T& value) {
        bool failed = false;
        const bool whole = take_member<ControlRules>(in, "failed", failed) &&
                           take_member<ControlRules>(in, name, value.emplace());
        if (!failed) value.reset();
        return whole;
    }
};

// In the order of ControlMessage's alternatives.
constexpr std::array<std::string_view, std::variant_size_v<ControlMessage>> kTypeNames = {
    "hello",       "workers_succeeded", "worker_failed", "worker_dying", "agent_signalled", "workers_gone",
    "rank_ends",   "notice_signal",     "goodbye",       "refused",      "peer_refused",    "waiting",
    "round_ready", "peer_dying",        "stop",          "restarting",   "finish"};

static_assert(!kTypeNames.back().empty(), "a message without a name");

}  // namespace

std::string encode_control(const ControlMessage& message) {
    json::object object;
    std::visit([&object](const auto& value) { put_members<ControlRules>(object, value); }, message);
    object["type"] = kTypeNames.at(message.index());
    std::string text = json::serialize(object);
    check(text.size() <= kMaxControlFrame, "a control message does not fit its frame");
    std::string frame;
    for (std::size_t i = 0; i < kLengthBytes; ++i)
        frame.push_back(static_cast<char>(text.size() >> (8 * i) & 0xFF));
    return frame + text;
}

boost::system::result<ControlMessage> decode_control(std::string_view text) {
    // A program's path may be any bytes.
    const auto object = parse_json_object(text, kMaxControlDepth, true);
    const json::value* type = object ? object->if_contains("type") : nullptr;
    std::optional<ControlMessage> message;
    boost::mp11::mp_for_each<boost::mp11::mp_iota_c<kTypeNames.size()>>([&](auto index) {
        if (type == nullptr || *type != json::string(kTypeNames[index])) return;
        std::variant_alternative_t<index, ControlMessage> members;
        if (take_members<ControlRules>(*object, members)) message = std::move(members);
    });
    if (!message) return make_error_code(Errc::protocol_violation);
    return std::move(*message);
}

void ControlFrames::append(std::string_view bytes) { buffer_.append(bytes); }

boost::system::result<std::optional<ControlMessage>> ControlFrames::next() {
    if (buffer_.size() < kLengthBytes) return std::optional<ControlMessage>();
    std::size_t length = 0;
    for (std::size_t i = 0; i < kLengthBytes; ++i) {
        length |= static_cast<std::size_t>(static_cast<unsigned char>(buffer_[i])) << (8 * i);
    }
    if (length == 0 || length > kMaxControlFrame) return make_error_code(Errc::limit_exceeded);
    if (buffer_.size() < kLengthBytes + length) return std::optional<ControlMessage>();
    auto message = decode_control(std::string_view(buffer_).substr(kLengthBytes, length));
    if (!message) return message.error();
    buffer_.erase(0, kLengthBytes + length);
    return std::optional<ControlMessage>(std::move(*message));
}

}  // namespace ddprun
