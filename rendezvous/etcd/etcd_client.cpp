#include "rendezvous/etcd/etcd_client.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>

#include "rendezvous/net/socket.hpp"
#include "rendezvous/system/deadline.hpp"
#include "rendezvous/system/error.hpp"

namespace ddprun {

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

}  // namespace

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
        tcp::socket socket = co_await async_connect_tcp(endpoint, connect_timeout);
        limit_silence(socket, kSilenceLimit);
        local_address_ = socket.local_endpoint().address().to_string();
        auto sent = http_request(endpoint, request);
        co_await http::async_write(socket, sent, asio::use_awaitable);

        Parser parser;
        parser.body_limit(is_watch ? boost::optional<std::uint64_t>() : kMaxAnswerBytes);
        parser.header_limit(kMaxHeaderBytes);
        beast::flat_buffer buffer(kMaxAnswerBytes);
        co_await http::async_read_header(socket, buffer, parser, asio::use_awaitable);
        const bool is_good = parser.get().result() == http::status::ok;
        while (!parser.is_done()) {
            co_await http::async_read_some(socket, buffer, parser, asio::use_awaitable);
            std::string& body = parser.get().body();
            if (is_watch && is_good && take_news(body)) co_return EtcdAnswer{EtcdAnswer::Kind::good, {}};
            if (body.size() > kMaxAnswerBytes) co_return failed(endpoint, "says too much for an answer");
        }
        if (!is_good) co_return refused(endpoint, parser);
        if (is_watch) co_return failed(endpoint, "ended a watch");
        co_return EtcdAnswer{EtcdAnswer::Kind::good, std::move(parser.get().body())};
    } catch (const Error& error) {
        co_return EtcdAnswer{EtcdAnswer::Kind::failed, error.what()};
    } catch (const boost::system::system_error& error) {
        co_return failed(endpoint, fmt::format("gives no answer of etcd's: {}", error.code().message()));
    }
}

}  // namespace ddprun
