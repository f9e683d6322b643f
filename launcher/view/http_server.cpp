#include "launcher/view/http_server.hpp"

#include "rendezvous/base/error.hpp"
#include "rendezvous/net/socket.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <cerrno>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace ddprun {
inline namespace launch {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;
using asio::experimental::awaitable_operators::operator||;
using Socket = asio::generic::stream_protocol::socket;
using HttpAnswer = http::response<http::string_body>;
using HttpParser = http::request_parser<http::empty_body>;

// When descriptors have run out, there is no event that says when there are some again.
constexpr std::chrono::seconds kShortagePause{1};
constexpr unsigned kHttp11 = 11;

// Visit: a caller that has yet to ask.
struct Visit {
    explicit Visit(Socket& from) : socket(from) { parser.header_limit(ServerLimits::kMaxRequest); }

    bool has_spoken() const {
        error_code unknown;
        return buffer.size() > 0 || socket.available(unknown) > 0;
    }

    Socket& socket;
    boost::beast::flat_buffer buffer{ServerLimits::kMaxRequest};
    HttpParser parser;
    std::chrono::steady_clock::time_point since = std::chrono::steady_clock::now();
};

// Kept alive by the coroutines that use it.
struct HttpService : std::enable_shared_from_this<HttpService> {
    HttpService(const asio::any_io_executor& executor, Caller who, ViewSource told, const ServerLimits& most)
        : caller(who),
          source(std::move(told)),
          limits(most),
          answered(executor, asio::steady_timer::time_point::max()) {}

    Caller caller;
    ViewSource source;
    ServerLimits limits;
    std::list<Visit*> open;       // the oldest first
    std::size_t answering = 0;    // connections that have asked
    std::size_t streams = 0;      // answers that go on
    asio::steady_timer answered;  // never expires; cancelled when one of those ends
};

HttpAnswer http_answer(http::status status, unsigned version) {
    HttpAnswer answer{status, version};
    answer.set(http::field::content_type, "application/json");
    answer.keep_alive(false);
    return answer;
}

Verb verb_of(http::verb verb) {
    if (verb == http::verb::get || verb == http::verb::head) return Verb::get;
    return verb == http::verb::post ? Verb::post : Verb::other;
}

// Returns the status for what is no request; nothing for a caller that is gone, or for a request.
std::optional<http::status> fault_of(const error_code& error) {
    if (error == http::error::header_limit || error == http::error::buffer_overflow)
        return http::status::request_header_fields_too_large;
    const bool is_gone = error.category() != make_error_code(http::error::bad_method).category() ||
                         error == http::error::end_of_stream || error == http::error::partial_message;
    return error && !is_gone ? std::optional(http::status::bad_request) : std::nullopt;
}

// Waits for the answer of the table, which may have to be gathered first.
asio::awaitable<ViewAnswer> said_to(const ViewRequest& request, const HttpService& service) {
    const auto executor = co_await asio::this_coro::executor;
    co_return co_await asio::async_initiate<const asio::use_awaitable_t<>, void(ViewAnswer)>(
        [&](auto handler) {
            auto kept = std::make_shared<decltype(handler)>(std::move(handler));
            answer_to(request, service.source, [kept, executor](ViewAnswer said) {
                asio::post(executor, [kept, said = std::move(said)]() mutable { (*kept)(std::move(said)); });
            });
        },
        asio::use_awaitable);
}

// Turn: how far a conversation has come.
struct Turn {
    bool is_answered = false;            // it is the launcher that is waited for
    std::shared_ptr<ViewStream> stream;  // the answer goes on
};

asio::awaitable<void> converse(HttpService& service, Visit& visit, Turn& turn) {
    Socket& socket = visit.socket;
    const HttpParser& parser = visit.parser;
    error_code error;
    co_await http::async_read_header(socket, visit.buffer, visit.parser,
                                     asio::redirect_error(asio::use_awaitable, error));
    const auto fault = fault_of(error);
    if (error && !fault) co_return;
    HttpAnswer answer = http_answer(fault.value_or(http::status::ok), kHttp11);
    ViewAnswer said;
    if (!fault) {
        const auto& request = parser.get();
        const bool is_head = request.method() == http::verb::head;
        // A temporary in the call would be destroyed twice (GCC 12).
        const ViewRequest asked{service.caller, verb_of(request.method()), std::string(request.target())};
        service.open.remove(&visit);
        ++service.answering;
        turn.is_answered = true;
        said = co_await said_to(asked, service);
        if (said.stream && service.streams >= ServerLimits::kMaxStreams) said = {.status = kHttpUnavailable};
        answer = http_answer(static_cast<http::status>(said.status), request.version());
        answer.set(http::field::cache_control, "no-store");
        if (!said.allowed.empty()) answer.set(http::field::allow, said.allowed);
        if (!said.stream) answer.content_length(said.text.size());
        if (!is_head) answer.body() = std::move(said.text);
    } else {
        answer.prepare_payload();
    }
    http::response_serializer<http::string_body> serializer(answer);
    // A HEAD's answer names the length of a body that it does not have.
    serializer.split(true);
    co_await http::async_write_header(socket, serializer, asio::redirect_error(asio::use_awaitable, error));
    if (!error && said.stream && parser.get().method() == http::verb::get) {
        turn.stream = std::move(said.stream);
        co_return;
    }
    if (!error && !answer.body().empty())
        co_await http::async_write(socket, serializer, asio::redirect_error(asio::use_awaitable, error));
    socket.shutdown(Socket::shutdown_send, error);
    // The signal may end the agent, so all has been said before.
    if (said.signal != 0) service.source.deliver(said.signal);
}

asio::awaitable<void> more_of(ViewStream& stream) {
    co_await asio::async_initiate<const asio::use_awaitable_t<>, void()>(
        [&stream](auto handler) {
            auto kept = std::make_shared<decltype(handler)>(std::move(handler));
            stream.await([kept] { (*kept)(); });
        },
        asio::use_awaitable);
}

// A launcher that ends waits for no client, so what the socket takes is written at once.
asio::awaitable<void> carry(std::shared_ptr<ViewStream> stream, Socket& socket) {
    error_code error;
    socket.non_blocking(true, error);
    // A client says nothing more: what can be read is its end.
    socket.async_wait(Socket::wait_read, [stream](const error_code&) { stream->close(); });
    for (;;) {
        const std::string text = stream->take();
        if (text.empty() && stream->is_over()) break;
        if (text.empty()) {
            co_await more_of(*stream);
            continue;
        }
        const std::size_t written = socket.write_some(asio::buffer(text), error);
        if (error && error != asio::error::would_block) break;
        if (written < text.size())
            co_await asio::async_write(socket, asio::buffer(text) + written,
                                       asio::redirect_error(asio::use_awaitable, error));
        if (error) break;
    }
    stream->close();
    socket.shutdown(Socket::shutdown_send, error);
}

// Sends one away: the oldest that has said nothing for a while, else the oldest of all.
void make_room(HttpService& service) {
    const auto late = std::chrono::steady_clock::now() - service.limits.first_word;
    auto place = std::find_if(service.open.begin(), service.open.end(), [late](const Visit* visit) {
        return visit->since <= late && !visit->has_spoken();
    });
    if (place == service.open.end()) place = service.open.begin();
    // Closing it ends what its conversation waits for.
    error_code ignored;
    (*place)->socket.close(ignored);
    service.open.erase(place);
}

asio::awaitable<void> serve_one(std::shared_ptr<HttpService> service, Socket socket) {
    Visit visit(socket);
    service->open.push_back(&visit);
    if (service->open.size() > service->limits.connections) make_room(*service);
    Turn turn;
    asio::steady_timer timer(socket.get_executor(), service->limits.timeout);
    co_await (converse(*service, visit, turn) || timer.async_wait(asio::use_awaitable));
    service->open.remove(&visit);
    if (!turn.is_answered) co_return;
    --service->answering;
    service->answered.cancel();
    if (!turn.stream) co_return;
    ++service->streams;
    co_await carry(turn.stream, socket);
    --service->streams;
}

bool is_own_user(int socket) {
    ucred peer{};
    socklen_t size = sizeof peer;
    return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
           (peer.uid == ::geteuid() || peer.uid == 0);
}

using Local = asio::local::stream_protocol;

// Asio's accept will not do: its sockets are not close-on-exec from birth.
asio::awaitable<void> accept_own(std::shared_ptr<HttpService> service, Local::acceptor acceptor) {
    const auto executor = acceptor.get_executor();
    for (;;) {
        boost::system::error_code one_has_ended;
        while (service->answering > 0 &&
               service->open.size() + service->answering >= service->limits.connections)
            co_await service->answered.async_wait(asio::redirect_error(asio::use_awaitable, one_has_ended));
        co_await acceptor.async_wait(Local::acceptor::wait_read, asio::use_awaitable);
        OwnedDescriptor socket(
            ::accept4(acceptor.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (!socket && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) {
            asio::steady_timer pause(executor, kShortagePause);
            co_await pause.async_wait(asio::use_awaitable);
        }
        if (!socket || !is_own_user(socket.get())) continue;
        asio::co_spawn(executor, serve_one(service, Local::socket(executor, Local(), socket.release())),
                       asio::detached);
    }
}

asio::awaitable<void> accept_all(std::shared_ptr<HttpService> service, asio::ip::tcp::acceptor acceptor) {
    const auto executor = acceptor.get_executor();
    co_await accept_each(acceptor, [executor, &service](asio::ip::tcp::socket socket) {
        asio::co_spawn(executor, serve_one(service, std::move(socket)), asio::detached);
    });
}

}  // namespace

std::uint16_t serve_tcp(const asio::any_io_executor& executor, ListenScope scope, std::uint16_t port,
                        ViewSource source, const ServerLimits& limits) {
    asio::ip::tcp::acceptor acceptor = listen_tcp(executor, scope, port);
    const std::uint16_t taken = acceptor.local_endpoint().port();
    auto service = std::make_shared<HttpService>(executor, Caller::anybody, std::move(source), limits);
    // Nobody calls any more if the listener itself is broken.
    asio::co_spawn(executor, accept_all(std::move(service), std::move(acceptor)),
                   [](const std::exception_ptr&) {});
    return taken;
}

void serve_unix(const asio::any_io_executor& executor, OwnedDescriptor listener, ViewSource source,
                const ServerLimits& limits) {
    Local::acceptor acceptor(executor, Local(), listener.release());
    auto service = std::make_shared<HttpService>(executor, Caller::own_user, std::move(source), limits);
    asio::co_spawn(executor, accept_own(std::move(service), std::move(acceptor)), asio::detached);
}

}  // namespace launch
}  // namespace ddprun
