// The job's key: what both ends of a connection prove to each other that they have. Made of a secret, which is the user's and
// may serve for many jobs, and of the run id: agents of different jobs do not take each other for their own. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <variant>

#include "rendezvous/system/secret_key.hpp"

namespace ddprun::inline job {

// 22 characters hold 128 bits if they were made at random; nobody types what is longer than the most.
inline constexpr std::size_t kMinSecretText = 22;
inline constexpr std::size_t kMaxSecretText = 1024;

// The secret of what a file, a line or a variable holds: blanks and line ends around it do not count. A text says what is
// wrong with it, without quoting it.
std::variant<std::string, std::string_view> parse_secret(std::string_view text);

// BLAKE2b-256, keyed with the secret, of "ddprun psk 1" and the run id.
SecretKey job_key(std::string_view secret, std::string_view run_id);

// The key of the workers' mesh in one round of the job: BLAKE2b-256, keyed with the job's, of "ddprun mesh 1", the job's id and
// the round (four bytes, the lowest first). Every agent makes it, so nobody has to send it.
SecretKey mesh_key(const SecretKey& job, std::string_view job_id, int round);

// A secret that nobody has guessed: 64 characters. Throws as SecretKey::fresh() does.
std::string make_secret_text();

}  // namespace ddprun::inline job
