#include "rendezvous/worker_env.hpp"
