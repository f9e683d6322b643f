#include "rendezvous/etcd/etcd_client.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>

#include "rendezvous/etcd/tls_context.hpp"
#include "rendezvous/etcd/tls_trouble.hpp"
#include "rendezvous/net/socket.hpp"
#include "rendezvous/system/deadline.hpp"
#include "rendezvous/system/error.hpp"

namespace ddprun::inline job {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;

namespace {

// A server that is gone without a word is noticed by then, also while a watch is silent.
constexpr std::chrono::seconds kSilenceLimit{10};

using Parser = http::response_parser<http::string_body>;

http::request<http::string_body> http_request(const Endpoint& endpoint, const EtcdRequest& request) {
    http::request<http::string_body> made{http::verb::post, request.path, 11};
    made.set(http::field::host, to_string(endpoint));
    made.set(http::field::content_type, "application/json");
    made.set(http::field::connection, "close");
    made.body() = request.body;
    made.prepare_payload();
    return made;
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

// Whether a whole message of a watch, each a line, has news; such lines are taken away.
bool take_news(std::string& body) {
    for (auto end = body.find('\n'); end != std::string::npos; end = body.find('\n')) {
        if (is_news(std::string_view(body).substr(0, end))) return true;
        body.erase(0, end + 1);
    }
    return false;
}

// One request and its answer, over a connection of any kind.
template <class Stream>
asio::awaitable<EtcdAnswer> exchange(Stream& stream, const Endpoint& endpoint, const EtcdRequest& request,
                                     bool is_watch) {
    auto sent = http_request(endpoint, request);
    // Who refuses may hang up before it has read all: what it says first is still there, and tells more.
    boost::system::error_code unsent, unread;
    co_await http::async_write(stream, sent, asio::redirect_error(asio::use_awaitable, unsent));

    Parser parser;
    parser.body_limit(is_watch ? boost::optional<std::uint64_t>() : EtcdClient::kMaxAnswerBytes);
    parser.header_limit(EtcdClient::kMaxHeaderBytes);
    beast::flat_buffer buffer(EtcdClient::kMaxAnswerBytes);
    co_await http::async_read_header(stream, buffer, parser,
                                     asio::redirect_error(asio::use_awaitable, unread));
    if (unread) throw boost::system::system_error(unsent && !is_tls_word(unread) ? unsent : unread);
    const bool is_good = parser.get().result() == http::status::ok;
    while (!parser.is_done()) {
        co_await http::async_read_some(stream, buffer, parser, asio::use_awaitable);
        std::string& body = parser.get().body();
        if (is_watch && is_good && take_news(body)) co_return EtcdAnswer{EtcdAnswer::Kind::good, {}};
        if (body.size() > EtcdClient::kMaxAnswerBytes)
            co_return failed(endpoint, "says too much for an answer");
    }
    if (!is_good) co_return refused(endpoint, parser);
    if (is_watch) co_return failed(endpoint, "ended a watch");
    co_return EtcdAnswer{EtcdAnswer::Kind::good, std::move(parser.get().body())};
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
    using namespace asio::experimental::awaitable_operators;
    asio::steady_timer deadline(co_await asio::this_coro::executor, timeout);
    auto first =
        co_await (converse(endpoint, request, timeout, false) || deadline.async_wait(asio::use_awaitable));
    if (first.index() == 1) co_return failed(endpoint, "does not answer");
    co_return std::get<0>(std::move(first));
}

asio::awaitable<EtcdAnswer> EtcdClient::watch(EtcdRequest request, TimePoint deadline) {
    using namespace asio::experimental::awaitable_operators;
    const Endpoint endpoint = last_endpoint();
    asio::steady_timer end(co_await asio::this_coro::executor,
                           std::min(deadline, TimePoint::clock::now() + kWatchTimeout));
    auto first =
        co_await (converse(endpoint, request, kRequestTimeout, true) || end.async_wait(asio::use_awaitable));
    if (first.index() == 1) co_return EtcdAnswer{EtcdAnswer::Kind::good, {}};
    co_return std::get<0>(std::move(first));
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
        co_return co_await exchange(socket, endpoint, request, is_watch);
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

// Its end is not agreed upon: the answer has a length of its own, and nobody waits for a server's farewell.
asio::awaitable<EtcdAnswer> EtcdClient::converse_secretly(tcp::socket socket, const Endpoint& endpoint,
                                                          const EtcdRequest& request,
                                                          TimePoint handshake_deadline, bool is_watch) {
    using namespace asio::experimental::awaitable_operators;
    asio::ssl::stream<tcp::socket> stream(std::move(socket), tls_->current());
    expect_host(stream.native_handle(), endpoint.host);
    asio::steady_timer deadline(co_await asio::this_coro::executor, handshake_deadline);
    boost::system::error_code error;
    const auto first = co_await (stream.async_handshake(asio::ssl::stream_base::client,
                                                        asio::redirect_error(asio::use_awaitable, error)) ||
                                 deadline.async_wait(asio::use_awaitable));
    if (first.index() == 1) co_return failed(endpoint, "does not answer in the handshake of TLS");
    if (error)
        co_return unheard(endpoint, handshake_trouble(error, ::SSL_get_verify_result(stream.native_handle()),
                                                      tls_->files()));
    try {
        co_return co_await exchange(stream, endpoint, request, is_watch);
    } catch (const boost::system::system_error& late) {
        if (!is_tls_word(late.code())) throw;
        error = late.code();
    }
    co_return unheard(endpoint, handshake_trouble(error, X509_V_OK, tls_->files()));
}

}  // namespace ddprun::inline job
