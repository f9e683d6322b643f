#include "launcher/jobs/job_control.hpp"

#include <fmt/core.h>
#include <sys/time.h>

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <memory>
#include <utility>

#include "launcher/harmless_text.hpp"
#include "rendezvous/codec/json_codec.hpp"
#include "rendezvous/job/exit_status.hpp"

namespace ddprun::inline launch {
namespace {

namespace json = boost::json;

constexpr std::string_view kStatus = "status";
constexpr std::string_view kSignal = "signal";
constexpr std::size_t kMaxRequestDepth = 8;

json::object message() { return {{"version", kControlVersion}}; }

std::string text_of(const json::object& object, std::string_view name) {
    std::string text;
    take_member<JsonRules>(object, name, text);
    return text;
}

bool same_version(const json::object& object) {
    int version = 0;
    return take_member<JsonRules>(object, "version", version) && version == kControlVersion;
}

// A member of its own tells whether a worker runs.
struct StatusRules : JsonRules {
    static std::string text(const std::string& text, std::size_t) { return valid_utf8(text); }

    template <std::same_as<std::optional<int>> T>
    static void put(json::object& out, std::string_view name, const T& exit_code) {
        out["running"] = !exit_code;
        out[name] = json_of<StatusRules>(exit_code);
    }
};

}  // namespace

std::string to_line(const ControlRequest& request) {
    json::object object = message();
    if (const auto* signal = std::get_if<SignalRequest>(&request)) {
        object["request"] = kSignal;
        object["signal"] = signal_name(signal->signal).value_or(std::to_string(signal->signal));
    } else {
        object["request"] = kStatus;
    }
    return json::serialize(object) + "\n";
}

std::string to_line(const ControlReply& reply) {
    json::object object = message();
    object["error"] = reply.error.empty() ? json::value(nullptr) : json::value(valid_utf8(reply.error));
    if (reply.ends_job) object["ends_job"] = true;
    if (reply.status) object["status"] = json_of<StatusRules>(*reply.status);
    return json::serialize(object) + "\n";
}

std::variant<ControlRequest, std::string> parse_control_request(std::string_view line) {
    const auto object = parse_json_object(line, kMaxRequestDepth);
    if (!object) return "the request is no JSON object";
    if (!same_version(*object))
        return fmt::format("only version {} of the protocol is spoken here", kControlVersion);
    const std::string request = text_of(*object, "request");
    if (request == kStatus) return ControlRequest(StatusRequest{});
    if (request != kSignal) return "no such request: '" + harmless_line(request) + "'";
    const auto signal = parse_signal(text_of(*object, "signal"));
    if (!signal) return "no such signal: '" + harmless_line(text_of(*object, "signal")) + "'";
    return ControlRequest(SignalRequest{*signal});
}

std::optional<ControlReply> parse_control_reply(std::string_view line) {
    const auto object = parse_json_object(line, kMaxRequestDepth);
    if (!object || !same_version(*object)) return std::nullopt;
    ControlReply reply{.error = text_of(*object, "error")};
    take_member<JsonRules>(*object, "ends_job", reply.ends_job);
    if (const json::value* status = object->if_contains("status")) {
        if (!from_json<StatusRules>(*status, reply.status.emplace())) return std::nullopt;
    }
    return reply;
}

std::string to_json(const AgentStatus& status) { return json::serialize(json_of<StatusRules>(status)); }

namespace {

constexpr std::size_t kReadSize = 64 * 1024;

[[noreturn]] void give_up(int error_number) {
    if (error_number == EAGAIN || error_number == EWOULDBLOCK)
        fail(Errc::timed_out, "the launcher does not answer");
    fail_errno(error_number, "cannot talk to the launcher");
}

void limit_waits(int socket, std::chrono::milliseconds timeout) {
    const auto seconds = std::chrono::floor<std::chrono::seconds>(timeout);
    timeval time{};
    time.tv_sec = seconds.count();
    time.tv_usec = std::chrono::microseconds(timeout - seconds).count();
    for (int direction : {SO_SNDTIMEO, SO_RCVTIMEO}) {
        if (::setsockopt(socket, SOL_SOCKET, direction, &time, sizeof time) != 0) give_up(errno);
    }
}

}  // namespace

ControlReply ask_job(const std::filesystem::path& folder, const ControlRequest& request,
                     std::chrono::milliseconds timeout) {
    const JobControlAddress address(folder);
    const OwnedDescriptor socket = make_control_socket();
    limit_waits(socket.get(), timeout);
    if (::connect(socket.get(), address.get(), JobControlAddress::size()) != 0) give_up(errno);
    const std::string line = to_line(request);
    // A request fits into the socket's buffer as a whole.
    if (::send(socket.get(), line.data(), line.size(), MSG_NOSIGNAL) < 0) give_up(errno);
    std::string text;
    std::array<char, kReadSize> buffer;
    while (text.empty() || text.back() != '\n') {
        const ssize_t count = ::recv(socket.get(), buffer.data(), buffer.size(), 0);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) give_up(errno);
        if (count == 0) fail(Errc::closed, "the launcher gave no answer");
        text.append(buffer.data(), static_cast<std::size_t>(count));
        if (text.size() > kMaxControlReply) fail(Errc::limit_exceeded, "the launcher's answer is too long");
    }
    text.pop_back();
    auto reply = parse_control_reply(text);
    if (!reply) fail(Errc::protocol_violation, "the launcher's answer is not understood");
    return *reply;
}

namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using asio::experimental::awaitable_operators::operator||;
using Protocol = asio::local::stream_protocol;

// When descriptors have run out, there is no event that says when there are some again.
constexpr std::chrono::seconds kShortagePause{1};

bool may_ask(int socket) {
    ucred peer{};
    socklen_t size = sizeof peer;
    return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
           (peer.uid == ::geteuid() || peer.uid == 0);
}

// The coroutines that use it keep it alive.
struct Server {
    JobControlHandlers handlers;
    std::chrono::milliseconds timeout;
    Protocol::acceptor acceptor;
    asio::steady_timer room{acceptor.get_executor(), asio::steady_timer::time_point::max()};
    std::size_t clients = 0;
};

// The reply, and the signal that is to be delivered when it is on its way; 0 for none.
std::pair<ControlReply, int> reply_to(std::string_view line, const JobControlHandlers& handlers) {
    const auto parsed = parse_control_request(line);
    if (const auto* why = std::get_if<std::string>(&parsed)) return {{.error = *why}, 0};
    const auto* signal = std::get_if<SignalRequest>(&std::get<ControlRequest>(parsed));
    if (signal == nullptr) return {{.status = handlers.status()}, 0};
    const SignalEffect effect = handlers.effect_of(signal->signal);
    return {{.error = effect.refusal, .ends_job = effect.ends_job},
            effect.refusal.empty() ? signal->signal : 0};
}

asio::awaitable<void> converse(const Server& server, Protocol::socket& socket) {
    std::string text;
    error_code error;
    const std::size_t size =
        co_await asio::async_read_until(socket, asio::dynamic_buffer(text, kMaxControlRequest), '\n',
                                        asio::redirect_error(asio::use_awaitable, error));
    const bool too_long = error == asio::error::not_found;
    if (error && !too_long) co_return;
    std::pair<ControlReply, int> answer{{.error = "the request is too long"}, 0};
    if (!too_long) answer = reply_to(std::string_view(text).substr(0, size - 1), server.handlers);
    text = to_line(answer.first);
    co_await asio::async_write(socket, asio::buffer(text), asio::redirect_error(asio::use_awaitable, error));
    // The signal may end the agent, so the conversation ends before.
    socket.close(error);
    if (answer.second != 0) server.handlers.deliver(answer.second);
}

asio::awaitable<void> serve_one(std::shared_ptr<Server> server, Protocol::socket socket) {
    asio::steady_timer timer(socket.get_executor(), server->timeout);
    co_await (converse(*server, socket) || timer.async_wait(asio::use_awaitable));
    --server->clients;
    server->room.cancel();
}

// Asio's accept will not do: its sockets are not close-on-exec from birth.
asio::awaitable<void> accept_all(std::shared_ptr<Server> server) {
    const auto executor = server->acceptor.get_executor();
    for (;;) {
        error_code ignored;
        if (server->clients == kMaxControlClients) {
            co_await server->room.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
            continue;
        }
        co_await server->acceptor.async_wait(Protocol::acceptor::wait_read, asio::use_awaitable);
        OwnedDescriptor socket(
            ::accept4(server->acceptor.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (!socket && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) {
            asio::steady_timer pause(executor, kShortagePause);
            co_await pause.async_wait(asio::use_awaitable);
        }
        if (!socket || !may_ask(socket.get())) continue;
        ++server->clients;
        asio::co_spawn(executor, serve_one(server, Protocol::socket(executor, Protocol(), socket.release())),
                       asio::detached);
    }
}

}  // namespace

OwnedDescriptor listen_job_control(const std::filesystem::path& folder) {
    const JobControlAddress address(folder);
    OwnedDescriptor listener = make_control_socket();
    const int flags = ::fcntl(listener.get(), F_GETFL);
    if (::bind(listener.get(), address.get(), JobControlAddress::size()) != 0 ||
        ::listen(listener.get(), SOMAXCONN) != 0 ||
        ::fcntl(listener.get(), F_SETFL, flags | O_NONBLOCK) != 0) {
        fail_errno(errno, "cannot listen in '" + folder.string() + "'");
    }
    return listener;
}

void serve_job_control(const asio::any_io_executor& executor, OwnedDescriptor listener,
                       JobControlHandlers handlers, std::chrono::milliseconds timeout) {
    auto server = std::make_shared<Server>(
        Server{std::move(handlers), timeout, Protocol::acceptor(executor, Protocol(), listener.release())});
    asio::co_spawn(executor, accept_all(std::move(server)), asio::detached);
}

}  // namespace ddprun::inline launch
