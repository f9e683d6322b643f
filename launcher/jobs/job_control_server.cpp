#include "launcher/jobs/job_control_server.hpp"

#include <fcntl.h>
#include <sys/socket.h>

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
#include <cerrno>
#include <memory>
#include <utility>

#include "launcher/jobs/job_control.hpp"
#include "rendezvous/system/error.hpp"

namespace ddprun::inline launch {
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

// Kept alive by the coroutines that use it.
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

// Not Asio's accept: its sockets are not close-on-exec from birth.
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
