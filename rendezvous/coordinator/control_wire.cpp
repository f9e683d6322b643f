#include "rendezvous/coordinator/control_wire.hpp"

#include <array>
#include <boost/json.hpp>
#include <concepts>
#include <limits>
#include <type_traits>

#include "rendezvous/system/check.hpp"
#include "rendezvous/system/error.hpp"

namespace ddprun {
namespace {

namespace json = boost::json;

constexpr std::size_t kLengthBytes = 4;

// The names of the enumerations, in the order of their values.
constexpr std::array<std::string_view, 3> kFailureKinds = {"worker_failed", "node_lost", "signalled"};
constexpr std::array<std::string_view, 4> kManners = {"succeeded", "failed", "stopped", "lost"};
constexpr const auto& names_of(Failure::Kind) { return kFailureKinds; }
constexpr const auto& names_of(RankEnd::Manner) { return kManners; }

// The members of each struct, handed by name to a Writer or a Reader: each list is written once. A third
// argument limits a text's length or a list's size.
void fields(auto& visit, auto& m, const Failure*) {
    visit("kind", m.kind);
    visit("node_rank", m.node_rank);
    visit("host", m.host, kMaxHostText);
    visit("rank", m.rank);
    visit("local_rank", m.local_rank);
    visit("pid", m.pid);
    visit("exit_code", m.exit_code);
    visit("signal", m.signal);
    visit("core_dumped", m.core_dumped);
    visit("unix_time_ms", m.unix_time_ms);
    visit("message", m.message);
    visit("error_message", m.error_message);
    visit("traceback", m.traceback);
    visit("hint", m.hint);
    visit("last_lines", m.last_lines, kMaxLastLines);
    visit("witness", m.witness);
    visit("accusation", m.accusation);
    visit("testimony", m.testimony);
}
void fields(auto& visit, auto& m, const RankEnd*) {
    visit("rank", m.rank);
    visit("local_rank", m.local_rank);
    visit("node_rank", m.node_rank);
    visit("host", m.host, kMaxHostText);
    visit("pid", m.pid);
    visit("exit_code", m.exit_code);
    visit("signal", m.signal);
    visit("core_dumped", m.core_dumped);
    visit("outlasted_grace", m.outlasted_grace);
    visit("manner", m.manner);
    visit("wall_ms", m.wall_ms);
}
void fields(auto& visit, auto& m, const Restart*) {
    visit("round", m.round);
    visit("reason", m.reason, kMaxReasonText);
    visit("unix_time_ms", m.unix_time_ms);
}
void fields(auto& visit, auto& m, const JobCommand*) {
    visit("text", m.text);
    visit("digest", m.digest);
}
void fields(auto& visit, auto& m, const Hello*) {
    visit("version", m.version);
    visit("run_id", m.run_id);
    visit("node_rank", m.node_rank);
    visit("nnodes", m.nnodes);
    visit("local_world_size", m.local_world_size);
    visit("role", m.role);
    visit("host", m.host, kMaxHostText);
    visit("pid", m.pid);
    visit("wants_rank_ends", m.wants_rank_ends);
    visit("command", m.command);
    visit("allow_different", m.allow_different);
    visit("reached_at", m.reached_at, kMaxHostText);
}
void fields(auto& visit, auto& m, const WorkersSucceeded*) { visit("round", m.round); }
void fields(auto& visit, auto& m, const WorkerFailed*) {
    visit("round", m.round);
    visit("failure", m.failure);
}
void fields(auto& visit, auto& m, const WorkerDying*) {
    visit("round", m.round);
    visit("rank", m.rank);
    visit("life", m.life);
    visit("itself", m.itself);
}
void fields(auto& visit, auto& m, const AgentSignalled*) {
    visit("round", m.round);
    visit("signal", m.signal);
}
void fields(auto& visit, auto& m, const WorkersGone*) {
    visit("round", m.round);
    visit("all_zero", m.all_zero);
    visit("progressed", m.progressed);
    visit("failed", m.failed);
    visit("failure", m.failure);
}
void fields(auto& visit, auto& m, const RankEnds*) {
    visit("round", m.round);
    visit("ends", m.ends, kMaxEndsInMessage);
}
void fields(auto& visit, auto& m, const NoticeSignal*) {
    visit("round", m.round);
    visit("signal", m.signal);
    visit("requeue", m.requeue);
}
void fields(auto&, auto&, const Goodbye*) {}
void fields(auto& visit, auto& m, const Refused*) {
    visit("reason", m.reason);
    visit("exit_code", m.exit_code);
}
void fields(auto& visit, auto& m, const PeerRefused*) {
    visit("host", m.host, kMaxHostText);
    visit("pid", m.pid);
    visit("reason", m.reason);
}
void fields(auto& visit, auto& m, const Waiting*) {
    visit("joined", m.joined);
    visit("expected", m.expected);
    visit("missing", m.missing, kMaxMissingListed);
}
void fields(auto& visit, auto& m, const RoundReady*) {
    visit("round", m.round);
    visit("job_id", m.job_id);
    visit("group_rank", m.group_rank);
    visit("group_world_size", m.group_world_size);
    visit("base_rank", m.base_rank);
    visit("world_size", m.world_size);
    visit("role_base_rank", m.role_base_rank);
    visit("role_world_size", m.role_world_size);
    visit("restart_count", m.restart_count);
    visit("max_restarts", m.max_restarts);
    visit("restart_reason", m.restart_reason, kMaxReasonText);
    visit("reached_at", m.reached_at, kMaxHostText);
}
void fields(auto& visit, auto& m, const PeerDying*) {
    visit("round", m.round);
    visit("life", m.life);
}
void fields(auto& visit, auto& m, const Stop*) {
    visit("round", m.round);
    visit("cause", m.cause);
}
void fields(auto& visit, auto& m, const Restarting*) {
    visit("cause", m.cause);
    visit("restart", m.restart);
    visit("max_restarts", m.max_restarts);
    visit("delay_ms", m.delay_ms);
}
void fields(auto& visit, auto& m, const Finish*) {
    visit("exit_code", m.exit_code);
    visit("failed", m.failed);
    visit("cause", m.cause);
    visit("message", m.message);
    visit("others", m.others, kMaxOthersListed);
    visit("failed_too", m.failed_too);
    visit("stopped", m.stopped);
    visit("lost", m.lost);
    visit("succeeded", m.succeeded);
    visit("restarts", m.restarts, kMaxRestartsListed);
    visit("unknown_nodes", m.unknown_nodes, kMaxUnknownListed);
    visit("unknown_node_count", m.unknown_node_count);
}

// Cut to the limit, but not in the middle of a UTF-8 character: JSON texts must stay valid.
std::string cut(const std::string& text, std::size_t limit) {
    if (text.size() <= limit) return text;
    std::size_t end = limit;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
    return text.substr(0, end);
}

struct Writer {
    json::object& out;

    template <class T>
    void operator()(const char* name, const T& value, std::size_t limit = kMaxControlText) {
        out[name] = to_json(value, limit);
    }

    static json::value to_json(const std::string& text, std::size_t limit) {
        return json::string(cut(text, limit));
    }
    template <class T>
    requires std::integral<T>
    static json::value to_json(T number, std::size_t) { return json::value(number); }
    template <class T>
    requires std::is_enum_v<T>
    static json::value to_json(T value, std::size_t) {
        return json::string(names_of(value).at(static_cast<std::size_t>(value)));
    }
    template <class T>
    static json::value to_json(const std::vector<T>& list, std::size_t limit) {
        check(list.size() <= limit, "a list does not fit its control message");
        json::array items;
        for (const T& item : list) items.push_back(to_json(item, kMaxLastLineText));
        return items;
    }
    template <class T>
    requires std::is_class_v<T>
    static json::value to_json(const T& object, std::size_t) {
        json::object members;
        Writer writer{members};
        fields(writer, object, static_cast<const T*>(nullptr));
        return members;
    }
};

struct Reader {
    const json::object& in;
    bool good = true;

    template <class T>
    void operator()(const char* name, T& value, std::size_t limit = kMaxControlText) {
        const json::value* member = in.if_contains(name);
        good = good && member != nullptr && from_json(*member, value, limit);
    }

    static bool from_json(const json::value& from, std::string& text, std::size_t limit) {
        const json::string* found = from.if_string();
        if (found == nullptr || found->size() > limit) return false;
        text.assign(found->data(), found->size());
        return true;
    }
    static bool from_json(const json::value& from, bool& flag, std::size_t) {
        const bool* found = from.if_bool();
        if (found != nullptr) flag = *found;
        return found != nullptr;
    }
    static bool from_json(const json::value& from, std::uint64_t& number, std::size_t) {
        // Which of the two the parser takes depends on the size.
        const std::uint64_t* large = from.if_uint64();
        const std::int64_t* small = from.if_int64();
        if (large == nullptr && (small == nullptr || *small < 0)) return false;
        number = large != nullptr ? *large : static_cast<std::uint64_t>(*small);
        return true;
    }
    template <class T>
    requires std::integral<T>
    static bool from_json(const json::value& from, T& number, std::size_t) {
        const std::int64_t* found = from.if_int64();
        if (found == nullptr || *found < std::numeric_limits<T>::min() ||
            *found > std::numeric_limits<T>::max()) {
            return false;
        }
        number = static_cast<T>(*found);
        return true;
    }
    template <class T>
    requires std::is_enum_v<T>
    static bool from_json(const json::value& from, T& value, std::size_t) {
        const json::string* found = from.if_string();
        const auto& names = names_of(value);
        for (std::size_t i = 0; found != nullptr && i < names.size(); ++i) {
            if (std::string_view(found->data(), found->size()) != names[i]) continue;
            value = static_cast<T>(i);
            return true;
        }
        return false;
    }
    template <class T>
    static bool from_json(const json::value& from, std::vector<T>& list, std::size_t limit) {
        const json::array* found = from.if_array();
        if (found == nullptr || found->size() > limit) return false;
        list.resize(found->size());
        for (std::size_t i = 0; i < list.size(); ++i) {
            if (!from_json((*found)[i], list[i], kMaxLastLineText)) return false;
        }
        return true;
    }
    template <class T>
    requires std::is_class_v<T>
    static bool from_json(const json::value& from, T& object, std::size_t) {
        const json::object* found = from.if_object();
        if (found == nullptr) return false;
        Reader reader{*found};
        fields(reader, object, static_cast<const T*>(nullptr));
        return reader.good;
    }
};

// In the order of ControlMessage's alternatives.
constexpr std::array<std::string_view, std::variant_size_v<ControlMessage>> kTypeNames = {
    "hello",       "workers_succeeded", "worker_failed", "worker_dying", "agent_signalled", "workers_gone",
    "rank_ends",   "notice_signal",     "goodbye",       "refused",      "peer_refused",    "waiting",
    "round_ready", "peer_dying",        "stop",          "restarting",   "finish"};

template <std::size_t Index = 0>
boost::system::result<ControlMessage> read_as(std::size_t index, const json::value& object) {
    if constexpr (Index < std::variant_size_v<ControlMessage>) {
        if (Index != index) return read_as<Index + 1>(index, object);
        std::variant_alternative_t<Index, ControlMessage> message;
        if (Reader::from_json(object, message, kMaxControlText)) return ControlMessage(std::move(message));
    }
    return make_error_code(Errc::protocol_violation);
}

}  // namespace

std::string encode_control(const ControlMessage& message) {
    json::value object =
        std::visit([](const auto& value) { return Writer::to_json(value, kMaxControlText); }, message);
    object.as_object()["type"] = json::string(kTypeNames.at(message.index()));
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
        if (std::string_view(name->data(), name->size()) == kTypeNames[i]) return read_as(i, value);
    }
    return make_error_code(Errc::protocol_violation);
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
