#include "rendezvous/etcd/etcd_client.hpp"

#include <fmt/core.h>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "rendezvous/base/deadline.hpp"
#include "rendezvous/base/error.hpp"
#include "rendezvous/etcd/tls.hpp"
#include "rendezvous/net/connect.hpp"
#include "rendezvous/net/socket.hpp"

namespace ddprun {
inline namespace job {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;
using TimePoint = EtcdClient::TimePoint;

namespace {

// A server that is gone without a word is noticed by then, also while a watch is silent.
constexpr std::chrono::seconds kSilenceLimit{10};

using Parser = http::response_parser<http::string_body>;

std::string http_request(const Endpoint& endpoint, const EtcdRequest& request) {
    return fmt::format(
        "POST {} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{}",
        request.path, to_string(endpoint), request.body.size(), request.body);
}

EtcdAnswer failed(const Endpoint& endpoint, const std::string& what) {
    return {EtcdAnswer::Kind::failed, fmt::format("{} {}", to_string(endpoint), what)};
}

EtcdAnswer unheard(const Endpoint& endpoint, const TlsTrouble& trouble) {
    EtcdAnswer answer = failed(endpoint, trouble.words);
    if (trouble.is_final) answer.kind = EtcdAnswer::Kind::refused;
    return answer;
}

// An answer with any other status than 200.
EtcdAnswer refused(const Endpoint& endpoint, const Parser& parser) {
    const int status = static_cast<int>(parser.get().result_int());
    const std::string reason(http::obsolete_reason(parser.get().result()));
    const EtcdRefusal refusal = read_refusal(status, parser.get().body());
    return {refusal.is_final ? EtcdAnswer::Kind::refused : EtcdAnswer::Kind::failed,
            fmt::format("{} answers {} {}{}{}", to_string(endpoint), status, reason,
                        refusal.words.empty() ? "" : ": ", refusal.words)};
}

// Tells whether a whole message of a watch, each a line, has news; the others are taken away.
bool take_news(std::string& body) {
    for (auto end = body.find('\n'); end != std::string::npos; end = body.find('\n')) {
        if (is_news(std::string_view(body).substr(0, end))) return true;
        body.erase(0, end + 1);
    }
    return false;
}

// Has the parser take what it can of `unread`; the rest stays there.
void feed(Parser& parser, std::string& unread, error_code& error) {
    unread.erase(0, parser.put(asio::buffer(std::as_const(unread)), error));
    if (error == http::error::need_more) error.clear();
}

// Tells it that the other side has said all that it will.
void finish(Parser& parser, error_code& error) {
    error = http::error::end_of_stream;
    if (parser.got_some()) parser.put_eof(error);
}

bool is_good(const Parser& parser) {
    return parser.is_header_done() && parser.get().result() == http::status::ok;
}

// Sends one request and reads its answer, over a connection of either kind.
asio::awaitable<EtcdAnswer> exchange(ByteStream& stream, const Endpoint& endpoint, const EtcdRequest& request,
                                     bool is_watch) {
    // A server that refuses may hang up before it has read all: what it says first is still there, and tells
    // more.
    const std::string sent = http_request(endpoint, request);
    const error_code unsent = co_await stream.write(sent);

    Parser parser;
    parser.eager(true);
    parser.body_limit(is_watch ? boost::optional<std::uint64_t>() : EtcdClient::kMaxAnswerBytes);
    parser.header_limit(EtcdClient::kMaxHeaderBytes);
    std::string unread;
    std::array<char, 4096> chunk;
    std::size_t heard = 0;  // also what had no news
    while (!parser.is_done()) {
        error_code error;
        const std::size_t size = co_await stream.read_some(asio::buffer(chunk), error);
        if (!error) feed(parser, unread.append(chunk.data(), size), error);
        if (error == asio::error::eof) finish(parser, error);
        if (error && unsent && !parser.is_header_done() && !is_tls_word(error)) error = unsent;
        if (error) throw boost::system::system_error(error);
        std::string& body = parser.get().body();
        if (is_watch && is_good(parser) && take_news(body)) co_return EtcdAnswer{EtcdAnswer::Kind::good, {}};
        heard += size;
        if (heard > EtcdClient::kMaxAnswerBytes + EtcdClient::kMaxHeaderBytes ||
            body.size() + unread.size() > EtcdClient::kMaxAnswerBytes)
            co_return failed(endpoint, "says too much for an answer");
    }
    if (!is_good(parser)) co_return refused(endpoint, parser);
    if (is_watch) co_return failed(endpoint, "ended a watch");
    co_return EtcdAnswer{EtcdAnswer::Kind::good, std::move(parser.get().body())};
}

// Gives what `work` comes to; nothing if it is not done by then, and it is given up.
template <class Result>
asio::awaitable<std::optional<Result>> by(TimePoint deadline, asio::awaitable<Result> work) {
    using namespace asio::experimental::awaitable_operators;
    asio::steady_timer timer(co_await asio::this_coro::executor, deadline);
    auto first = co_await (std::move(work) || timer.async_wait(asio::use_awaitable));
    if (first.index() == 1) co_return std::nullopt;
    co_return std::get<0>(std::move(first));
}

}  // namespace

EtcdClient::EtcdClient(EtcdOptions options) : endpoints_(std::move(options.endpoints)) {
    if (options.tls) tls_ = std::make_unique<TlsContext>(std::move(*options.tls));
}

EtcdClient::~EtcdClient() = default;

asio::awaitable<EtcdAnswer> EtcdClient::ask(EtcdRequest request, TimePoint deadline) {
    EtcdAnswer all;
    bool is_refused = true;
    for (std::size_t attempt = 0; attempt < endpoints_.size(); ++attempt) {
        const std::size_t at = (last_ + attempt) % endpoints_.size();
        const auto timeout = std::min(time_until(deadline), kRequestTimeout);
        if (timeout.count() == 0) {
            is_refused = false;
            break;
        }
        EtcdAnswer answer = co_await ask_one(endpoints_[at], request, timeout);
        if (answer.kind == EtcdAnswer::Kind::good) {
            last_ = at;
            co_return answer;
        }
        is_refused = is_refused && answer.kind == EtcdAnswer::Kind::refused;
        all.text += (all.text.empty() ? "" : "; ") + answer.text;
    }
    all.kind = is_refused ? EtcdAnswer::Kind::refused : EtcdAnswer::Kind::failed;
    co_return all;
}

asio::awaitable<EtcdAnswer> EtcdClient::ask_one(const Endpoint& endpoint, const EtcdRequest& request,
                                                std::chrono::milliseconds timeout) {
    auto answer = co_await by(TimePoint::clock::now() + timeout, converse(endpoint, request, timeout, false));
    co_return answer ? std::move(*answer) : failed(endpoint, "does not answer");
}

asio::awaitable<EtcdAnswer> EtcdClient::watch(EtcdRequest request, TimePoint deadline) {
    const Endpoint endpoint = last_endpoint();
    auto answer = co_await by(std::min(deadline, TimePoint::clock::now() + kWatchTimeout),
                              converse(endpoint, request, kRequestTimeout, true));
    co_return answer ? std::move(*answer) : EtcdAnswer{EtcdAnswer::Kind::good, {}};
}

asio::awaitable<EtcdAnswer> EtcdClient::converse(const Endpoint& endpoint, const EtcdRequest& request,
                                                 std::chrono::milliseconds connect_timeout, bool is_watch) {
    try {
        const auto connected_by = TimePoint::clock::now() + connect_timeout;
        tcp::socket socket = co_await async_connect_tcp(endpoint, connect_timeout);
        limit_silence(socket, kSilenceLimit);
        local_address_ = socket.local_endpoint().address().to_string();
        if (tls_)
            co_return co_await converse_secretly(std::move(socket), endpoint, request, connected_by,
                                                 is_watch);
        const auto stream = ByteStream::plain(std::move(socket));
        co_return co_await exchange(*stream, endpoint, request, is_watch);
    } catch (const Error& error) {
        co_return EtcdAnswer{EtcdAnswer::Kind::failed, error.what()};
    } catch (const boost::system::system_error& error) {
        // A server that wants TLS hangs up on anything else.
        const bool may_want_tls = !tls_ && (error.code() == http::error::end_of_stream ||
                                            error.code() == asio::error::connection_reset);
        co_return failed(endpoint,
                         fmt::format("gives no answer of etcd's: {}{}", error.code().message(),
                                     may_want_tls ? "; if it wants TLS, --rdzv-conf protocol=https" : ""));
    }
}

asio::awaitable<EtcdAnswer> EtcdClient::converse_secretly(tcp::socket socket, const Endpoint& endpoint,
                                                          const EtcdRequest& request,
                                                          TimePoint handshake_deadline, bool is_watch) {
    const auto stream = TlsStream::make(std::move(socket), *tls_, endpoint.host);
    const auto error = co_await by(handshake_deadline, stream->shake_hands());
    if (!error) co_return failed(endpoint, "does not answer in the handshake of TLS");
    if (*error) co_return unheard(endpoint, stream->trouble(*error));
    try {
        co_return co_await exchange(*stream, endpoint, request, is_watch);
    } catch (const boost::system::system_error& late) {
        if (!is_tls_word(late.code())) throw;
        co_return unheard(endpoint, stream->trouble(late.code()));
    }
}

}  // namespace job
}  // namespace ddprun
