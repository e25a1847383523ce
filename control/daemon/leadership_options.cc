#include "control/daemon/leadership_options.h"

#include <utility>

#include "control/config/store_address.h"
#include "control/daemon/private_file.h"

namespace tally::control {

Result<LeadershipOptions> leadership_options(const ClusterConfig& cluster) {
  auto endpoints = parse_store(cluster.store);
  if (!endpoints) return endpoints.error();
  LeadershipOptions options;
  options.etcd.endpoints = std::move(endpoints).value();
  options.etcd.authority = cluster.store_authority;
  options.etcd.user = cluster.store_user;
  options.prefix = cluster.store_prefix;
  options.name = cluster.name;
  if (cluster.store_password_file.empty()) return options;
  auto password = read_private_line("cluster.store_password_file", cluster.store_password_file,
                                    "it has no password in its first line");
  if (!password) return password.error();
  options.etcd.password = std::move(password).value();
  return options;
}

}  // namespace tally::control
