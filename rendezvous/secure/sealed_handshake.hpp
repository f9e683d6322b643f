// The first words of a sealed connection, over a socket; what they are says sealed_greeting.hpp. On the thread of the
// socket's executor. The connection stays open; who owns the socket ends it where no proof was given.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <optional>
#include <string>

#include "rendezvous/secure/sealed_greeting.hpp"

namespace ddprun::inline job {

// For the other side's part of it.
inline constexpr std::chrono::seconds kSealTimeout{5};

// The caller's part: Proof::none also when the connection breaks or the time is over.
boost::asio::awaitable<SealedCall::Result> call_sealed(boost::asio::ip::tcp::socket& socket,
                                                       SealedPurpose purpose, const SecretKey& key);

// The host's part. `first`: what the caller has said so far, which begins with kSealedMagic. A refusal was sent by then.
boost::asio::awaitable<SealedAnswer> answer_sealed(boost::asio::ip::tcp::socket& socket, std::string first,
                                                   const std::optional<SecretKey>& key);

}  // namespace ddprun::inline job
