#include "rendezvous/control_wire.hpp"

#include <array>
#include <boost/json.hpp>
#include <limits>

#include "rendezvous/check.hpp"
#include "rendezvous/error.hpp"

namespace ddprun {
namespace {

namespace json = boost::json;

constexpr std::size_t kLengthBytes = 4;
constexpr std::size_t kMaxMissingOnWire = static_cast<std::size_t>(kMaxMissingListed);
constexpr std::array<std::string_view, 3> kFailureKinds = {"worker_failed", "node_lost", "signalled"};

std::string cut(const std::string& text) {
    if (text.size() <= kMaxControlText) return text;
    std::size_t end = kMaxControlText;
    // Not in the middle of a UTF-8 character: JSON texts must stay valid.
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
    return text.substr(0, end);
}

// Writes the members of a message into an object. The counterpart of Reader: both are handed to `fields`, so
// the list of members of each message is written once.
struct Writer {
    json::object& out;

    void operator()(const char* name, const std::string& value) { out[name] = cut(value); }
    void operator()(const char* name, int value) { out[name] = value; }
    void operator()(const char* name, std::int64_t value) { out[name] = value; }
    void operator()(const char* name, bool value) { out[name] = value; }
    void operator()(const char* name, const std::vector<int>& value) {
        out[name] = json::array(value.begin(), value.end());
    }
    void operator()(const char* name, Failure::Kind value) {
        out[name] = json::string(kFailureKinds.at(static_cast<std::size_t>(value)));
    }
    void operator()(const char* name, const Failure& value);
};

struct Reader {
    const json::object& in;
    bool good = true;

    template <class T>
    void integer(const char* name, T& value) {
        const json::value* member = in.if_contains(name);
        const std::int64_t* number = member != nullptr ? member->if_int64() : nullptr;
        good = good && number != nullptr && *number >= std::numeric_limits<T>::min() &&
               *number <= std::numeric_limits<T>::max();
        if (good) value = static_cast<T>(*number);
    }

    void operator()(const char* name, int& value) { integer(name, value); }
    void operator()(const char* name, std::int64_t& value) { integer(name, value); }
    void operator()(const char* name, std::string& value) {
        const json::value* member = in.if_contains(name);
        const json::string* text = member != nullptr ? member->if_string() : nullptr;
        good = good && text != nullptr && text->size() <= kMaxControlText;
        if (good) value.assign(text->data(), text->size());
    }
    void operator()(const char* name, bool& value) {
        const json::value* member = in.if_contains(name);
        const bool* flag = member != nullptr ? member->if_bool() : nullptr;
        good = good && flag != nullptr;
        if (good) value = *flag;
    }
    void operator()(const char* name, std::vector<int>& value) {
        const json::value* member = in.if_contains(name);
        const json::array* list = member != nullptr ? member->if_array() : nullptr;
        good = good && list != nullptr && list->size() <= kMaxMissingOnWire;
        if (!good) return;
        for (const json::value& item : *list) {
            const std::int64_t* number = item.if_int64();
            good = good && number != nullptr && *number >= 0 && *number <= std::numeric_limits<int>::max();
            if (good) value.push_back(static_cast<int>(*number));
        }
    }
    void operator()(const char* name, Failure::Kind& value) {
        std::string text;
        (*this)(name, text);
        for (std::size_t i = 0; i < kFailureKinds.size(); ++i) {
            if (text == kFailureKinds[i]) {
                value = static_cast<Failure::Kind>(i);
                return;
            }
        }
        good = false;
    }
    void operator()(const char* name, Failure& value);
};

template <class Visitor, class Message>
void failure_fields(Visitor& visit, Message& failure) {
    visit("kind", failure.kind);
    visit("node_rank", failure.node_rank);
    visit("host", failure.host);
    visit("rank", failure.rank);
    visit("local_rank", failure.local_rank);
    visit("pid", failure.pid);
    visit("exit_code", failure.exit_code);
    visit("signal", failure.signal);
    visit("core_dumped", failure.core_dumped);
    visit("message", failure.message);
}

void Writer::operator()(const char* name, const Failure& value) {
    json::object inner;
    Writer writer{inner};
    failure_fields(writer, value);
    out[name] = std::move(inner);
}

void Reader::operator()(const char* name, Failure& value) {
    const json::value* member = in.if_contains(name);
    const json::object* inner = member != nullptr ? member->if_object() : nullptr;
    good = good && inner != nullptr;
    if (!good) return;
    Reader reader{*inner};
    failure_fields(reader, value);
    good = reader.good;
}

// Each message's type name and members, for writing and reading alike.
template <class V>
void fields(V& visit, auto& m, const Hello*) {
    visit("version", m.version);
    visit("run_id", m.run_id);
    visit("node_rank", m.node_rank);
    visit("nnodes", m.nnodes);
    visit("local_world_size", m.local_world_size);
    visit("role", m.role);
    visit("host", m.host);
    visit("pid", m.pid);
}
template <class V>
void fields(V& visit, auto& m, const WorkersSucceeded*) {
    visit("round", m.round);
}
template <class V>
void fields(V& visit, auto& m, const WorkerFailed*) {
    visit("round", m.round);
    visit("failure", m.failure);
}
template <class V>
void fields(V& visit, auto& m, const AgentSignalled*) {
    visit("round", m.round);
    visit("signal", m.signal);
}
template <class V>
void fields(V& visit, auto& m, const WorkersGone*) {
    visit("round", m.round);
    visit("all_zero", m.all_zero);
}
template <class V>
void fields(V&, auto&, const Goodbye*) {}
template <class V>
void fields(V& visit, auto& m, const Refused*) {
    visit("reason", m.reason);
    visit("exit_code", m.exit_code);
}
template <class V>
void fields(V& visit, auto& m, const Waiting*) {
    visit("joined", m.joined);
    visit("expected", m.expected);
    visit("missing", m.missing);
}
template <class V>
void fields(V& visit, auto& m, const RoundReady*) {
    visit("round", m.round);
    visit("job_id", m.job_id);
    visit("group_rank", m.group_rank);
    visit("group_world_size", m.group_world_size);
    visit("base_rank", m.base_rank);
    visit("world_size", m.world_size);
    visit("role_base_rank", m.role_base_rank);
    visit("role_world_size", m.role_world_size);
    visit("restart_count", m.restart_count);
}
template <class V>
void fields(V& visit, auto& m, const Stop*) {
    visit("round", m.round);
    visit("cause", m.cause);
}
template <class V>
void fields(V& visit, auto& m, const Finish*) {
    visit("exit_code", m.exit_code);
    visit("failed", m.failed);
    visit("cause", m.cause);
}

// In the order of ControlMessage's alternatives.
constexpr std::array<std::string_view, std::variant_size_v<ControlMessage>> kTypeNames = {
    "hello",   "workers_succeeded", "worker_failed", "agent_signalled", "workers_gone", "goodbye", "refused",
    "waiting", "round_ready",       "stop",          "finish"};

template <std::size_t Index = 0>
boost::system::result<ControlMessage> read_as(std::size_t index, const json::object& object) {
    if constexpr (Index < std::variant_size_v<ControlMessage>) {
        if (Index != index) return read_as<Index + 1>(index, object);
        using Message = std::variant_alternative_t<Index, ControlMessage>;
        Message message;
        Reader reader{object};
        fields(reader, message, static_cast<const Message*>(nullptr));
        if (!reader.good) return make_error_code(Errc::protocol_violation);
        return ControlMessage(std::move(message));
    } else {
        return make_error_code(Errc::protocol_violation);
    }
}

}  // namespace

std::string encode_control(const ControlMessage& message) {
    json::object object;
    object["type"] = json::string(kTypeNames.at(message.index()));
    std::visit(
        [&](const auto& value) {
            Writer writer{object};
            fields(writer, value, &value);
        },
        message);
    std::string text = json::serialize(object);
    check(text.size() <= kMaxControlFrame, "a control message does not fit its frame");
    std::string frame;
    for (std::size_t i = 0; i < kLengthBytes; ++i)
        frame.push_back(static_cast<char>(text.size() >> (8 * i) & 0xFF));
    return frame + text;
}

boost::system::result<ControlMessage> decode_control(std::string_view text) {
    boost::system::error_code error;
    json::parse_options options;
    options.allow_invalid_utf8 = true;  // a program's path may be any bytes
    json::value value = json::parse({text.data(), text.size()}, error, {}, options);
    const json::object* object = error ? nullptr : value.if_object();
    const json::value* type = object != nullptr ? object->if_contains("type") : nullptr;
    const json::string* name = type != nullptr ? type->if_string() : nullptr;
    if (name == nullptr) return make_error_code(Errc::protocol_violation);
    for (std::size_t i = 0; i < kTypeNames.size(); ++i) {
        if (std::string_view(name->data(), name->size()) == kTypeNames[i]) return read_as(i, *object);
    }
    return make_error_code(Errc::protocol_violation);
}

void ControlFrames::append(std::string_view bytes) {
    buffer_.append(bytes);
}

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
